package mysql

import (
	"context"
	"database/sql"
	"sync"
)

// killStates has the wakeups that this driver sends, by client. Many requests at once for a client become at most two KILLs:
//
//	┌───────┐ asked for ┌─────┐ a KILL is sent ┌─────────┐ asked for ┌──────────┐
//	│ quiet │──────────►│ due │───────────────►│ killing │──────────►│ dueAgain │
//	└───────┘           └─────┘                └─────────┘           └──────────┘
//	    ▲                  ▲       it has been   │                  it has been │
//	    └──────────────────┼───────answered──────┘                     answered │
//	                       └────────────────────────────────────────────────────┘
//
// A request while a wakeup is due joins it: the KILL is sent after both changes were committed. If the request comes while a
// KILL is being sent, this KILL may be too early, so another one follows. After a failed KILL, the wakeups of its client are
// dropped: the client polls.
type killStates struct {
	mu    sync.Mutex
	state map[string]killState
}

type killState int

const (
	quiet    killState = iota
	due                // a goroutine is about to send the KILL
	killing            // the KILL has no answer yet
	dueAgain           // the same, and another wakeup was requested
)

type killEvent int

const (
	killAsked killEvent = iota
	killSent
	killAnswered
	killFailed
)

// killMoves are the transitions of a client's wakeups. Other events change nothing.
var killMoves = map[killState]map[killEvent]killState{
	quiet:    {killAsked: due},
	due:      {killSent: killing, killFailed: quiet},
	killing:  {killAsked: dueAgain, killAnswered: quiet, killFailed: quiet},
	dueAgain: {killAnswered: due, killFailed: quiet},
}

// move moves the wakeups of a client, and reports whether a KILL has become due.
func (r *killStates) move(client string, e killEvent) (isDue bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, drawn := killMoves[r.state[client]][e]
	switch {
	case !drawn:
		return false
	case next == quiet:
		delete(r.state, client)
	case r.state == nil:
		r.state = map[string]killState{}
		fallthrough
	default:
		r.state[client] = next
	}
	return next == due
}

const killsMost = 16 // clients that are woken for one change; the others poll

// Wake implements [sqldb.Waker].
func (s *store) Wake(clients []string) {
	var list []string
	for _, client := range clients[:min(len(clients), killsMost)] {
		if s.kills.move(client, killAsked) {
			list = append(list, client)
		}
	}
	if len(list) > 0 {
		s.killers.Go(func() { s.killDue(list) })
	}
}

// killDue wakes clients until no KILL is due.
func (s *store) killDue(list []string) {
	defer func() {
		for _, client := range list { // if the KILL failed
			s.kills.move(client, killFailed)
		}
	}()
	conn, err := s.acquire(s.ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	for len(list) > 0 {
		s.kills.move(list[0], killSent)
		if err := s.kill(s.ctx, conn, list[0]); err != nil {
			return
		}
		if s.kills.move(list[0], killAnswered) {
			list = append(list, list[0])
		}
		list = list[1:]
	}
}

// wake ends the sleep of a client. It is no error if the client does not sleep.
func (s *store) wake(ctx context.Context, client string) error {
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
	if _, err := conn.ExecContext(ctx, "KILL QUERY IS_USED_LOCK("+wakeupLock(client)+")"); err != nil && number(err) == 0 {
		drop(conn)
		return err
	}
	return nil
}
