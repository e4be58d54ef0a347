package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"
)

// A sleepLock is the state of a client that sleeps until it is woken. Usually it does not use SLEEP: all connections in
// SLEEP share one mutex of MariaDB. A KILL holds a mutex of its victim, and tries to lock the shared one. A victim that is
// about to sleep, or was just woken by another KILL, holds the shared mutex, and waits for its own. Both stand still until
// the KILL gives up, after 2 s; meanwhile no connection falls asleep or wakes. A wait for a user-level lock has a mutex of
// its own. Four connections sent 3,935 KILLs to one in SLEEP, and 99 of these took 2 s; of 24,408 KILLs to one that waited
// for a lock, none took 75 ms.
//
// So a client waits for a user-level lock that another connection holds:
//
//	┌──────────┐ the parked ┌─────────┐ another connection ┌──────────┐
//	│ onParked │───────────►│ inSleep │───────────────────►│ onSecond │
//	└──────────┘ lock is    └─────────┘ has the second     └──────────┘
//	 waits for   ours        is in ▲    lock                  waits for │
//	 the parked              SLEEP └────────────────────the second lock─┘
//	 lock                           the second lock is ours
//
// One client of a server holds the parked lock as long as its connection lives, and all other clients wait for this lock. A
// second connection of the holding client holds the second lock, and does nothing else. If the second connection ends, the
// sleeping connection gets the second lock, and releases it for the next one. No wakeup is lost in a transition: it begins
// when a text has ended, and the next text polls first.
type sleepLock struct {
	mu   sync.Mutex // guards at
	at   sleepPlace
	lost chan struct{} // has an element if another connection must take the second lock
}

type sleepPlace int

const (
	onParked sleepPlace = iota // it waits for the lock of the client that holds the parked lock
	inSleep                    // it is in SLEEP
	onSecond                   // it waits for the lock of its own second connection
)

// sleepMoves are the transitions of a sleepLock.
var sleepMoves = map[sleepPlace]sleepPlace{onParked: inSleep, inSleep: onSecond, onSecond: inSleep}

// move moves the client from one place to the next, unless it is at another place.
func (m *sleepLock) move(from sleepPlace) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == from {
		m.at = sleepMoves[from]
	}
}

func (m *sleepLock) now() sleepPlace {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

const (
	parkedLock      = "'stile-bell-parked'"
	secondLock      = "'stile-bell-anchor'"
	secondLockConns = 5 // a pool with fewer connections has none to spare for the second lock
)

// text returns the statement that sleeps. On MariaDB it fails if the sleep is interrupted.
func (b sleepPlace) text() string {
	return fmt.Sprintf([...]string{
		onParked: "SELECT GET_LOCK(" + parkedLock + ", %d)",
		inSleep:  "SELECT SLEEP(%d)",
		onSecond: "SELECT GET_LOCK(" + secondLock + ", %d)",
	}[b], int(sleepFor/time.Second))
}

// An awakening is the cause of the end of a sleep.
type awakening int

const (
	slept    awakening = iota // by itself
	wasWoken                  // by a wakeup
	freed                     // it got the lock that it waited for
)

// ends returns the cause of the end of a sleep without an error.
func (b sleepPlace) ends(answer sql.NullInt64) awakening {
	switch {
	case !answer.Valid, answer.Int64 == 1 && b == inSleep:
		return wasWoken
	case answer.Int64 == 1:
		return freed
	}
	return slept
}

// keepSecond keeps the second lock, on one connection after another, while the client listens.
func (s *store) keepSecond(ctx context.Context, m *sleepLock, client string) {
	if most := s.db.Stats().MaxOpenConnections; most > 0 && most < secondLockConns {
		return
	}
	for ctx.Err() == nil {
		if err := s.holdSecond(ctx, m, client); err != nil {
			_ = s.pause(ctx, time.Second) // before the next try
		}
	}
}

// holdSecond keeps the second lock until it is lost. An old, unused connection may still hold the lock, and serves as long
// as it lives.
func (s *store) holdSecond(ctx context.Context, m *sleepLock, client string) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer drop(conn) // the lock ends with it
	ask := func(text string) error {
		bound, cancel := s.bound(ctx)
		defer cancel()
		_, err := conn.ExecContext(bound, text)
		return err
	}
	if err := ask("DO GET_LOCK(" + secondLock + ", 0)"); err != nil {
		return err
	}
	m.move(inSleep)
	_ = s.wake(ctx, client) // the sleeping connection may be in SLEEP
	tick := time.NewTicker(sleepFor)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.lost:
			return nil
		case <-tick.C: // before the server ends an idle connection
		}
		if err := ask("DO 1"); err != nil {
			return err
		}
	}
}

// giveBackSecond releases the second lock, which the sleeping connection has got, so that another connection can take it.
func (s *store) giveBackSecond(ctx context.Context, conn *sql.Conn, m *sleepLock) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if _, err := conn.ExecContext(ctx, "DO RELEASE_LOCK("+secondLock+")"); err != nil {
		return err
	}
	m.move(onSecond)
	select {
	case m.lost <- struct{}{}:
	default: // it is noted already
	}
	return nil
}
