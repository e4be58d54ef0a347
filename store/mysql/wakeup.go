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

// A wakeups lets the client that has changed a queue wake the client whose claim holds because of the change. The server has
// no messages, but a statement can end another one. A client that wants to be woken takes a user-level lock that is named
// after it, and sleeps on that connection in the server. To wake it, another client ends the statement of the connection
// that has the lock. A user may end statements of the same user, so this needs no more rights.
//
// A wakeup between two sleeps reaches nobody. So the text that sleeps first reads the claims: a wakeup before this read was
// for a change that the read sees, and a later one ends the text. Claims that the read left out are read when the text is
// known to run. A pool that does not send several statements at once only sleeps, and loses such a wakeup.
//
// A client whose claim has held for longer than a moment listens on the same connection for the wakeup of a break: see
// [sqldb.Waker]. It checks which of its claims are still there when the text is known to run, so it misses no wakeup either.
//
// A wakeup may be lost: behind a proxy, on another server of a cluster, or because the other client is older or is another
// user. So waiters poll too, and rarely only while wakeups come:
//
//	┌────────┐ the lock is ours ┌──────────┐ a wakeup comes  ┌──────┐
//	│ absent │─────────────────►│ doubtful │────────────────►│ sure │
//	└────────┘                  └──────────┘◄────────────────└──────┘
//	     ▲                           │   a claim was found to hold  │
//	     └───────────────────────────┘   without a wakeup           │
//	     └──────────────── the connection ends ─────────────────────┘
//
// A client sends itself the first wakeup, to test whether wakeups arrive. It repeats this until one arrives.
//
// Without wakeups and their locks, the server uses 2.1 to 3.1 times the processor while a name is held for 200 ms at a time,
// over a link with a round trip of 4.8 ms. There eight processes that only hand the name on are 1.1 to 1.2 times as fast
// without them; on loopback they make 0.48 of the locks.
type wakeups struct {
	mu    sync.Mutex // guards the fields below
	state hearing
	last  time.Time // of the last wakeup
}

type hearing int

const (
	absent   hearing = iota // no goroutine listens
	doubtful                // a goroutine listens, and got no wakeup yet, or missed one
	sure                    // wakeups arrive
)

type wakeupEvent int

const (
	wakeupsBegun wakeupEvent = iota // this client got the lock
	wakeupCame                      // the sleep was ended
	wakeupMissed                    // a claim was found to hold without a wakeup
	wakeupsEnded                    // the connection has ended
)

// wakeupMoves are the transitions of a wakeups.
var wakeupMoves = map[hearing]map[wakeupEvent]hearing{
	absent:   {wakeupsBegun: doubtful},
	doubtful: {wakeupCame: sure, wakeupsEnded: absent},
	sure:     {wakeupCame: sure, wakeupMissed: doubtful, wakeupsEnded: absent},
}

// move changes the state, if this transition is drawn.
func (b *wakeups) move(e wakeupEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e == wakeupCame {
		b.last = time.Now()
	}
	if next, drawn := wakeupMoves[b.state][e]; drawn {
		b.state = next
	}
}

// found notes that a poll has found claims that hold. The client that let them hold should have sent a wakeup shortly
// before.
func (b *wakeups) found() {
	b.mu.Lock()
	wasWoken := time.Since(b.last) < 2*pollWoken
	b.mu.Unlock()
	if !wasWoken {
		b.move(wakeupMissed)
	}
}

func (b *wakeups) heard() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state == sure
}

const (
	sleepFor    = 10 * time.Second // in one statement
	wakeupConns = 4                // a pool with fewer connections has none to spare for wakeups
)

// wakeupLock is the user-level lock of a client. Names may have 64 characters.
func wakeupLock(client string) string {
	sum := sha256.Sum256([]byte(client))
	return fmt.Sprintf("'stile-bell-%x'", sum[:16])
}

// hasConnToSpare reports whether the pool has a connection to spare for wakeups.
func (s *store) hasConnToSpare() bool {
	most := s.db.Stats().MaxOpenConnections
	return most == 0 || most >= wakeupConns
}

// Listen implements [sqldb.Waker].
func (s *store) Listen(ctx context.Context, client string, wanted func() bool, woken, recheck func()) {
	if !s.hasConnToSpare() {
		_ = s.pause(ctx, sleepFor) // or until ctx ends, which the caller checks
		return
	}
	if err := s.listen(ctx, client, wanted, woken, recheck); err != nil {
		_ = s.pause(ctx, sleepFor/10) // before the next try
	}
}

// listen listens for wakeups on a connection of its own, until no claim needs them.
func (s *store) listen(ctx context.Context, client string, wanted func() bool, woken, recheck func()) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer drop(conn) // the lock ends with it
	asleep, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	// A sleep that is cut off on this side goes on in the server. So a wakeup ends it.
	stop := context.AfterFunc(ctx, func() {
		defer cancel()
		bound, cancel := context.WithTimeout(asleep, time.Second)
		defer cancel()
		_ = s.wake(bound, client) // if this fails, the sleep ends by itself after sleepFor
	})
	defer stop()
	var got, isParked sql.NullInt64
	if err := conn.QueryRowContext(asleep, "SELECT GET_LOCK("+wakeupLock(client)+", 0), GET_LOCK("+parkedLock+", 0)").Scan(&got, &isParked); err != nil {
		return err
	}
	if got.Int64 != 1 {
		return errLockTaken
	}
	s.wakeups.move(wakeupsBegun)
	defer s.wakeups.move(wakeupsEnded)
	m := &sleepLock{lost: make(chan struct{}, 1)}
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	parks := func() { m.move(onParked); all.Go(func() { s.keepSecond(asleep, m, client) }) }
	if isParked.Int64 == 1 {
		parks()
	}
	unheard, heard := context.WithCancel(asleep)
	defer heard()
	s.life.Go(func() { s.wakeSelf(unheard, asleep, client) })
	for ctx.Err() == nil && wanted() {
		at := m.now()
		end, err := s.sleep(asleep, conn, at, woken, recheck)
		switch {
		case err != nil:
			return err
		case end == wasWoken:
			heard()
			s.wakeups.move(wakeupCame)
		case end == freed && at == onParked:
			parks()
		case end == freed:
			if err := s.giveBackSecond(asleep, conn, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownWakeAfter is the pause between taking the lock and the client's own wakeup, so that the sleep has begun.
const ownWakeAfter = 5 * time.Millisecond

// wakeSelf wakes this client until a wakeup arrives, since a wakeup before the sleep is lost. It tries less and less often,
// since wakeups may never arrive.
func (s *store) wakeSelf(unheard, asleep context.Context, client string) {
	for pause := ownWakeAfter; s.pause(unheard, pause) == nil; pause = min(2*pause, sleepFor) {
		_ = s.wake(asleep, client) // a later one may arrive
	}
}

var errLockTaken = errors.New("another connection listens for the client already")
