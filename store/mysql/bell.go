package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A bell lets the client that has changed a queue wake the client whose claim holds because of the change. The server has
// no messages, but a statement can end another one: whoever wants to be woken takes a user-level lock that is named after
// the client, and sleeps on that connection in the server, and whoever wakes it ends the statement of the connection that
// has the lock. A user may end statements of the same user; nobody needs more rights.
//
// A ring that comes between two sleeps reaches nobody. So the text that sleeps looks at the claims first: a ring before that
// look was for a change that the look sees, and a ring after it ends the text. A claim that the look was not about is looked at
// once the text is known to run. A pool that does not send several statements at once only sleeps, and loses such a ring.
//
// Who holds for longer than a moment listens on the same connection, for a ring that means that somebody broke its claim: see
// [sqldb.Ringer]. A look at which of its claims still stand begins when the text is known to run, so it misses no ring either.
//
// A ring may be lost: behind a proxy, on another server of a cluster, or because the other client is older or is another user.
// So waiters poll too, and as seldom as they may only while rings are heard:
//
//	┌────────┐ the lock is ours ┌──────────┐  a ring comes   ┌──────┐
//	│ absent │─────────────────►│ doubtful │────────────────►│ sure │
//	└────────┘                  └──────────┘◄────────────────└──────┘
//	     ▲                           │   a claim was found to hold  │
//	     └───────────────────────────┘   and nobody had rung        │
//	     └──────────────── the connection ends ─────────────────────┘
//
// The first ring is one's own, to see that rings come through. It is repeated until it is heard.
//
// Without the bell, its anchor, rings and sleeps, the server takes 2.1 to 3.1 times the processor while a name is held for 200 ms at a
// time, over a link with a round trip of 4.8 ms, though eight processes that only pass it on are 1.1 to 1.2 times as quick there; on
// loopback they make 0.48 of the locks.
type bell struct {
	mu    sync.Mutex // guards what follows
	state hearing
	last  time.Time // of the last ring
}

type hearing int

const (
	absent   hearing = iota // nobody listens
	doubtful                // somebody listens, and has heard nothing yet, or missed a ring
	sure                    // rings come through
)

type bellEvent int

const (
	bellHung   bellEvent = iota // the lock is ours
	bellRang                    // the sleep was ended
	bellMissed                  // a claim was found to hold, and nobody had rung
	bellFell                    // the connection has ended
)

// bellMoves are the ways that a bell can go.
var bellMoves = map[hearing]map[bellEvent]hearing{
	absent:   {bellHung: doubtful},
	doubtful: {bellRang: sure, bellFell: absent},
	sure:     {bellRang: sure, bellMissed: doubtful, bellFell: absent},
}

// move moves the bell, unless that way is not drawn.
func (b *bell) move(e bellEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e == bellRang {
		b.last = time.Now()
	}
	if next, drawn := bellMoves[b.state][e]; drawn {
		b.state = next
	}
}

// found notes that a poll has found claims that hold. Whoever let them has rung, and not long ago.
func (b *bell) found() {
	b.mu.Lock()
	rang := time.Since(b.last) < 2*pollRung
	b.mu.Unlock()
	if !rang {
		b.move(bellMissed)
	}
}

func (b *bell) heard() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state == sure
}

const (
	sleepFor  = 10 * time.Second // in one statement
	bellConns = 4                // a pool with fewer connections has none to spare for the bell
)

// bellName is the user-level lock of a client. Names may have 64 characters.
func bellName(client string) string {
	sum := sha256.Sum256([]byte(client))
	return fmt.Sprintf("'stile-bell-%x'", sum[:16])
}

// hangs reports whether the pool has a connection to spare for the bell.
func (s *store) hangs() bool {
	most := s.db.Stats().MaxOpenConnections
	return most == 0 || most >= bellConns
}

// Hear is that of [sqldb.Ringer].
func (s *store) Hear(ctx context.Context, client string, wanted func() bool, rung, stirred func()) {
	if !s.hangs() {
		_ = s.pause(ctx, sleepFor) // or until ctx ends, at which the caller looks
		return
	}
	if err := s.listen(ctx, client, wanted, rung, stirred); err != nil {
		_ = s.pause(ctx, sleepFor/10) // before it is tried again
	}
}

// listen hangs the bell on a connection of its own, until nobody wants it any more.
func (s *store) listen(ctx context.Context, client string, wanted func() bool, rung, stirred func()) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer drop(conn) // the lock goes with it
	asleep, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	// A sleep that is cut off on this side goes on in the server, so it is ended by a ring.
	stop := context.AfterFunc(ctx, func() {
		defer cancel()
		bound, cancel := context.WithTimeout(asleep, time.Second)
		defer cancel()
		_ = s.ring(bound, client) // or it ends by itself, after sleepFor
	})
	defer stop()
	var got, isParked sql.NullInt64
	if err := conn.QueryRowContext(asleep, "SELECT GET_LOCK("+bellName(client)+", 0), GET_LOCK("+parked+", 0)").Scan(&got, &isParked); err != nil {
		return err
	}
	if got.Int64 != 1 {
		return errHung
	}
	s.bell.move(bellHung)
	defer s.bell.move(bellFell)
	m := &mooring{lost: make(chan struct{}, 1)}
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	parks := func() { m.move(follows); all.Go(func() { s.anchors(asleep, m, client) }) }
	if isParked.Int64 == 1 {
		parks()
	}
	unheard, heard := context.WithCancel(asleep)
	defer heard()
	s.life.Go(func() { s.ringSelf(unheard, asleep, client) })
	for ctx.Err() == nil && wanted() {
		at := m.now()
		end, err := s.sleep(asleep, conn, at, rung, stirred)
		switch {
		case err != nil:
			return err
		case end == rang:
			heard()
			s.bell.move(bellRang)
		case end == freed && at == follows:
			parks()
		case end == freed:
			if err := s.drifts(asleep, conn, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownRing is how long after the lock is ours one's own ring is due, for which the sleep must have begun.
const ownRing = 5 * time.Millisecond

// ringSelf rings for this client until it hears, since a ring is lost that comes before the sleep: ever more seldom, as rings may
// never come through.
func (s *store) ringSelf(unheard, asleep context.Context, client string) {
	for pause := ownRing; s.pause(unheard, pause) == nil; pause = min(2*pause, sleepFor) {
		_ = s.ring(asleep, client) // the next one may come through
	}
}

var errHung = errors.New("the client's bell is taken")
