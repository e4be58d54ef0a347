package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"
)

// A mooring is what a client waits for while it sleeps. It is not SLEEP: all connections in SLEEP share one mutex of
// MariaDB. A KILL has a mutex of its victim, and tries for the shared one. A victim that is about to sleep, or was
// just woken by another KILL, has the shared one, and waits for its own. Both stand still until the KILL gives up,
// after 2 s; meanwhile nobody falls asleep or wakes. A wait for a user-level lock has a mutex of its own. Of 3,935
// KILLs by four connections of one that was in SLEEP, 99 took 2 s; of 24,408 of one that waited for a lock, none took
// 75 ms.
//
// So a client waits for a user-level lock that another connection has:
//
//	┌────────┐  parked  ┌───────┐ another connection has ┌──────────┐
//	│ follows│─────────►│ alone │───────────────────────►│ anchored │
//	└────────┘ is ours  └───────┘        the anchor      └──────────┘
//	 waits for           is in ▲                           waits for │
//	 parked              SLEEP └───────────────────────────the anchor┘
//	                                  the anchor is ours
//
// Of all clients of a server, one has the lock parked, for which the others wait, and keeps it as long as its
// connection lives. A second connection of that client has the anchor, and does nothing else. If the second connection
// ends, the bell's connection gets the anchor, and gives it back for the next one. No ring is lost on any way: each
// way begins when a text has ended, and the next text looks first.
type mooring struct {
	mu   sync.Mutex // guards at
	at   berth
	lost chan struct{} // has an element if the anchor is to be had anew
}

type berth int

const (
	follows  berth = iota // it waits for the client that is parked
	alone                 // it is in SLEEP
	anchored              // it waits for another connection of its own
)

// berthMoves are the ways that a mooring can go.
var berthMoves = map[berth]berth{follows: alone, alone: anchored, anchored: alone}

// move moves the mooring from a berth to the next one, unless it is not there.
func (m *mooring) move(from berth) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == from {
		m.at = berthMoves[from]
	}
}

func (m *mooring) now() berth {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

const (
	parked      = "'stile-bell-parked'"
	anchor      = "'stile-bell-anchor'"
	anchorConns = 5 // a pool with fewer connections has none to spare for the anchor
)

// text is the statement of a sleep. MariaDB calls it an error if somebody ends that before its time.
func (b berth) text() string {
	return fmt.Sprintf([...]string{
		follows:  "SELECT GET_LOCK(" + parked + ", %d)",
		alone:    "SELECT SLEEP(%d)",
		anchored: "SELECT GET_LOCK(" + anchor + ", %d)",
	}[b], int(sleepFor/time.Second))
}

// An awakening is how a sleep has ended.
type awakening int

const (
	slept awakening = iota // by itself
	rang                   // by a ring
	freed                  // the lock that it waited for is ours
)

// ends says how a sleep has ended that answered without an error.
func (b berth) ends(answer sql.NullInt64) awakening {
	switch {
	case !answer.Valid, answer.Int64 == 1 && b == alone:
		return rang
	case answer.Int64 == 1:
		return freed
	}
	return slept
}

// anchors keeps the anchor, on one connection after another, while the client listens.
func (s *store) anchors(ctx context.Context, m *mooring, client string) {
	if most := s.db.Stats().MaxOpenConnections; most > 0 && most < anchorConns {
		return
	}
	for ctx.Err() == nil {
		if err := s.anchor(ctx, m, client); err != nil {
			_ = s.pause(ctx, time.Second) // before it is tried again
		}
	}
}

// anchor keeps the anchor until it is lost. It may still be that of a connection which nobody needs any more: that one
// serves as long as it lives.
func (s *store) anchor(ctx context.Context, m *mooring, client string) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer drop(conn) // the lock goes with it
	ask := func(text string) error {
		bound, cancel := s.bound(ctx)
		defer cancel()
		_, err := conn.ExecContext(bound, text)
		return err
	}
	if err := ask("DO GET_LOCK(" + anchor + ", 0)"); err != nil {
		return err
	}
	m.move(alone)
	_ = s.ring(ctx, client) // which may be in SLEEP
	tick := time.NewTicker(sleepFor)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.lost:
			return nil
		case <-tick.C: // before the server ends a connection that says nothing
		}
		if err := ask("DO 1"); err != nil {
			return err
		}
	}
}

// drifts gives the anchor back, which the bell's connection has got, for another connection to have it.
func (s *store) drifts(ctx context.Context, conn *sql.Conn, m *mooring) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if _, err := conn.ExecContext(ctx, "DO RELEASE_LOCK("+anchor+")"); err != nil {
		return err
	}
	m.move(anchored)
	select {
	case m.lost <- struct{}{}:
	default: // it is known
	}
	return nil
}
