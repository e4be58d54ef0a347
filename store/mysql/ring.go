package mysql

import (
	"context"
	"database/sql"
	"sync"
)

// rings are those of this driver, by client. Many that come at once are two at most:
//
//	┌───────┐ ring ┌─────┐ a KILL is sent ┌─────────┐ ring ┌──────────┐
//	│ quiet │─────►│ due │───────────────►│ killing │─────►│ dueAgain │
//	└───────┘      └─────┘                └─────────┘      └──────────┘
//	    ▲             ▲       it has been   │              it has been │
//	    └─────────────┼───────answered──────┘                 answered │
//	                  └────────────────────────────────────────────────┘
//
// A ring that comes while one is due is the same one: the KILL is sent after both changes were committed. One that
// comes while a KILL is sent may have come too late for it, and is done after it. A KILL that fails ends those of its
// client: the client polls.
type rings struct {
	mu sync.Mutex
	of map[string]ringing
}

type ringing int

const (
	quiet    ringing = iota
	due              // somebody is about to send the KILL
	killing          // it has not been answered yet
	dueAgain         // and another ring has come meanwhile
)

type ringEvent int

const (
	ringCame ringEvent = iota
	killSent
	killAnswered
	killFailed
)

// ringMoves are the ways that the rings of a client can go. It stays where it is by another event.
var ringMoves = map[ringing]map[ringEvent]ringing{
	quiet:    {ringCame: due},
	due:      {killSent: killing, killFailed: quiet},
	killing:  {ringCame: dueAgain, killAnswered: quiet, killFailed: quiet},
	dueAgain: {killAnswered: due, killFailed: quiet},
}

// move moves the rings of a client, and reports whether they have come to be due.
func (r *rings) move(client string, e ringEvent) (isDue bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, drawn := ringMoves[r.of[client]][e]
	switch {
	case !drawn:
		return false
	case next == quiet:
		delete(r.of, client)
	case r.of == nil:
		r.of = map[string]ringing{}
		fallthrough
	default:
		r.of[client] = next
	}
	return next == due
}

const ringsMost = 16 // clients that are rung for one change; the others poll

// Ring is that of [sqldb.Ringer].
func (s *store) Ring(clients []string) {
	var list []string
	for _, client := range clients[:min(len(clients), ringsMost)] {
		if s.rings.move(client, ringCame) {
			list = append(list, client)
		}
	}
	if len(list) > 0 {
		s.ringing.Go(func() { s.ringDue(list) })
	}
}

// ringDue rings for clients until none of them is due.
func (s *store) ringDue(list []string) {
	defer func() {
		for _, client := range list { // if it failed
			s.rings.move(client, killFailed)
		}
	}()
	conn, err := s.acquire(s.ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	for len(list) > 0 {
		s.rings.move(list[0], killSent)
		if err := s.kill(s.ctx, conn, list[0]); err != nil {
			return
		}
		if s.rings.move(list[0], killAnswered) {
			list = append(list, list[0])
		}
		list = list[1:]
	}
}

// ring ends the sleep of a client. One that does not sleep is no error.
func (s *store) ring(ctx context.Context, client string) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return s.kill(ctx, conn, client)
}

func (s *store) kill(ctx context.Context, conn *sql.Conn, client string) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if _, err := conn.ExecContext(ctx, "KILL QUERY IS_USED_LOCK("+bellName(client)+")"); err != nil && number(err) == 0 {
		drop(conn)
		return err
	}
	return nil
}
