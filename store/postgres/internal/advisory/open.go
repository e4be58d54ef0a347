// Package advisory keeps locks as PostgreSQL's advisory locks, which need no tables and no disk, and end with their
// connection. Package session has the protocol, and this package the statements.
package advisory

import (
	"context"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/session"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

// A server is a PostgreSQL with advisory locks.
type server struct {
	link    *link.Link
	timeout time.Duration // it ends a session after this silence
	key     func(name string) int64
	traits  driver.Traits
}

// Open opens a store whose locks live in a connection. Its parameters are session_timeout and the link's parameters.
func Open(ctx context.Context, a *driver.Address) (driver.Driver, error) { return open(ctx, a, Key) }

func open(ctx context.Context, a *driver.Address, key func(name string) int64) (driver.Driver, error) {
	timeout, err := session.Timeout(a)
	if err != nil {
		return nil, driver.Refused(err)
	}
	l, err := link.Open(ctx, a)
	if err != nil {
		return nil, err
	}
	s := &server{link: l, timeout: timeout, key: key}
	home, err := s.connect(ctx)
	if ended := driver.Ended(ctx, false); ended != nil {
		err = ended
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.traits = promise(&home.server, timeout)
	return session.New(s, l.Life, timeout, home), nil
}

// promise returns the promises of advisory locks.
func promise(v *link.Server, timeout time.Duration) driver.Traits {
	t := driver.Traits{
		Store: "postgres session", Server: v.Product(), Shared: true, OwnClient: true, Clock: "session", Wake: "poll",
		MinTTL: 100 * time.Millisecond, MaxTTL: driver.MaxTTL, Granularity: time.Millisecond,
	}
	t.Note("All locks of a client live on one connection, and are freed when it ends. " +
		"Ending it (pg_terminate_backend, a restart, a failover) frees them at once, while their holder finds out " +
		"when the end of the connection reaches it, or at the latest when its lease ends: for that time two may hold.")
	if endsIdle(v) {
		t.Note("The server ends the session of a client that it has not heard for %v (idle_session_timeout), "+
			"which frees its locks.", timeout)
	} else {
		t.Warn("PostgreSQL 14 or later", "The server has no idle_session_timeout: "+
			"it frees the locks of a client that froze when TCP ends the connection.")
	}
	t.Note("Waiters come in no order: readers that come and go without a gap keep a writer out, " +
		"and other programs that wait for the key in the server come first.")
	t.Note("A client waits in the server for one key at a time. It tries the others now and then.")
	t.Note("Keys are 64 bits of a hash, in one space with all other advisory locks of the database: " +
		"names with one key keep each other out.")
	t.Note("A claim that holds cannot be changed: an advisory lock has no record.")
	return t
}

// Traits returns the promises of advisory locks.
func (s *server) Traits() driver.Traits { return s.traits }

// Close ends all connections.
func (s *server) Close() { s.link.Close() }
