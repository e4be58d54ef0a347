package advisory

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/session"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

// A conn is a connection with its advisory locks.
//
// It locks a key of its own, its tag, which nobody else knows. So the server can be asked about the tag, whatever has become
// of the process.
type conn struct {
	link   *link.Link
	pg     *pgx.Conn
	server link.Server // its own description
	pid    uint32      // the process that has the locks
	pooled bool        // the process is a pooler's, and may go on with another client's session
	tag    int64
	unhook func()        // ends the watch of the idle connection; nil if there is none
	ended  chan struct{} // closed when that watch has ended
}

var (
	errShared = errors.New("postgres is behind a pooler that shares connections between transactions, " +
		"where advisory locks go astray: use the server's own address, or leave out mode=session")
	errMoved = errors.New("the locks' connection leads to another backend than before, as through a pooler")
)

const (
	// connectWithin bounds making a connection and identifying its server.
	connectWithin = 10 * time.Second

	// departWithin is how long a connection that is given up may take to cancel its statement, before it is closed.
	departWithin = time.Second
)

// named lets the connection prepare a statement at its first use.
const named = pgx.QueryExecModeCacheStatement

// Connect makes a connection.
func (s *server) Connect(ctx context.Context) (session.Conn, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (s *server) connect(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	pg, err := s.link.Take(ctx)
	if err != nil {
		return nil, err
	}
	var tag [8]byte
	_, _ = rand.Read(tag[:]) // never fails
	c := &conn{link: s.link, pg: pg, tag: int64(binary.NativeEndian.Uint64(tag[:]))}
	if err := s.greet(ctx, c); err != nil {
		link.HangUp(pg)
		return nil, driver.NotYet(err)
	}
	return c, nil
}

// greet identifies the server, gives it its tag, and makes the server notice soon that this client is dead.
func (s *server) greet(ctx context.Context, c *conn) error {
	v := &c.server
	err := c.pg.QueryRow(ctx, "SELECT pg_backend_pid(), "+link.AboutServer, link.Plain).
		Scan(&c.pid, &v.Version, &v.Number, &v.Standby)
	if err != nil {
		return c.explain(err)
	}
	if err := v.Check(); err != nil {
		return driver.Refused(err)
	}
	if c.pooled = s.link.Pooled(c.pg, c.pid); c.pooled {
		if err := c.examine(ctx); err != nil {
			return err
		}
	}
	seconds := strconv.Itoa(max(1, int(s.timeout/time.Second)/4))
	timeout := strconv.FormatInt(s.timeout.Milliseconds(), 10)
	names := []string{
		"statement_timeout", "lock_timeout", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout",
	}
	values := []string{"0", "0", seconds, seconds, "3", timeout}
	if endsIdle(v) {
		names, values = append(names, "idle_session_timeout"), append(values, timeout)
	}
	if v.Number >= 170000 {
		names, values = append(names, "transaction_timeout"), append(values, "0")
	}
	const set = "SELECT set_config(name, value, false) " +
		"FROM pg_advisory_lock($3::bigint), unnest($1::text[], $2::text[]) settings (name, value)"
	if _, err := c.pg.Exec(ctx, set, link.Plain, names, values, c.tag); err != nil {
		return c.explain(err)
	}
	return nil
}

// endsIdle reports whether a server can end a session that is silent.
func endsIdle(v *link.Server) bool { return v.Number >= 140000 }

// examine distinguishes a pooler that gives each client its own backend, which is harmless, from other poolers: while
// another connection is in a transaction, this one must keep its backend, and the other must have another.
func (c *conn) examine(ctx context.Context) error {
	second, err := c.link.Take(ctx)
	if err != nil {
		return err
	}
	defer link.HangUp(second)
	for range 4 {
		var mine, its uint32
		tx, err := second.Begin(ctx)
		if err == nil {
			err = tx.QueryRow(ctx, "SELECT pg_backend_pid()", link.Plain).Scan(&its)
		}
		if err == nil {
			err = c.pg.QueryRow(ctx, "SELECT pg_backend_pid()", link.Plain).Scan(&mine)
		}
		if err == nil && (mine != c.pid || its == c.pid) {
			return driver.Refused(errShared)
		}
		if err == nil {
			err = tx.Rollback(ctx)
		}
		if err != nil {
			return c.explain(err)
		}
	}
	return nil
}

// explain explains an error. A caller's context never interrupts a statement, so only the link's can have ended one.
func (c *conn) explain(err error) error { return c.link.Explain(c.link.Context(), err) }

// steps is the statement for any number of steps. It returns which backend answered.
const steps = `SELECT pg_backend_pid(), ARRAY(SELECT CASE
	WHEN free AND shared THEN pg_advisory_unlock_shared(key)
	WHEN free THEN pg_advisory_unlock(key)
	WHEN shared THEN pg_try_advisory_lock_shared(key)
	ELSE pg_try_advisory_lock(key) END
	FROM unnest($1::bigint[], $2::boolean[], $3::boolean[]) steps (key, shared, free))`

// Do locks keys that are free, and unlocks other keys.
func (c *conn) Do(ctx context.Context, list []session.Step) (done []bool, alive bool, err error) {
	c.unwatch()
	keys, shared, free := make([]int64, len(list)), make([]bool, len(list)), make([]bool, len(list))
	for i, d := range list {
		keys[i], _ = strconv.ParseInt(d.Key, 10, 64) // Key has made it
		shared[i], free[i] = d.Shared, d.Free
	}
	var pid uint32
	err = c.pg.QueryRow(ctx, steps, named, keys, shared, free).Scan(&pid, &done)
	switch {
	case err != nil:
		return nil, !link.Drops(err) && !c.pg.IsClosed(), c.explain(err)
	case pid != c.pid:
		return nil, false, driver.Unreachable(errMoved)
	}
	return done, true, nil
}

// waitWithin bounds the statement of a wait. A waiting statement keeps its snapshot. As long as it does, CREATE INDEX
// CONCURRENTLY in other sessions waits for it, and VACUUM removes no row that was deleted since. It is less than the default
// of deadlock_timeout, at which log_lock_waits would log each of them.
const waitWithin = 900 * time.Millisecond

// waits returns the statements that wait for a key. They have unlocked it when they end, since they are one transaction.
// They catch the error of lock_timeout in the server, so that it is not in the server's log each time.
func waits(key string, shared bool) string {
	return fmt.Sprintf(`SELECT set_config('stile.key', '%s', true), set_config('lock_timeout', '%d', true);
DO $stile$ BEGIN
	PERFORM pg_advisory_xact_lock%s(current_setting('stile.key')::bigint);
EXCEPTION WHEN lock_not_available THEN NULL;
END $stile$`, key, waitWithin.Milliseconds(), map[bool]string{true: "_shared"}[shared])
}

// Wait waits in the server. If ctx ends, the connection ends with it.
func (c *conn) Wait(ctx context.Context, key string, shared bool) error {
	_, err := c.pg.PgConn().Exec(ctx, waits(key, shared)).ReadAll()
	if err != nil && c.pg.IsClosed() { // until the server has noticed, but not for long
		timer := time.NewTimer(departWithin)
		defer timer.Stop()
		select {
		case <-c.pg.PgConn().CleanupDone():
		case <-timer.C:
		}
	}
	return err
}

// Rest watches the idle connection.
func (c *conn) Rest() <-chan struct{} {
	if c.unhook != nil {
		return c.ended
	}
	ctx, cancel := context.WithCancel(c.link.Context())
	ended, pg := make(chan struct{}), c.pg
	if !c.link.Go(func() {
		defer close(ended)
		for {
			if _, err := pg.WaitForNotification(ctx); err != nil {
				return
			}
		}
	}) {
		cancel()
		return nil
	}
	c.unhook, c.ended = cancel, ended
	return ended
}

// unwatch makes the connection free for a statement.
func (c *conn) unwatch() {
	if c.unhook != nil {
		c.unhook()
		<-c.ended
		c.unhook, c.ended = nil, nil
	}
}

// Close ends the connection without waiting for the server.
func (c *conn) Close() {
	c.unwatch()
	link.HangUp(c.pg)
}

const (
	// tagFree reports whether nobody has a tag. A process that ends frees its locks before anything else. A standby has
	// locks of its own, and does not know the primary's.
	tagFree = "SELECT CASE WHEN pg_is_in_recovery() THEN false ELSE pg_try_advisory_xact_lock($1::bigint) END"

	// endTagged ends the process that has a tag.
	endTagged = "SELECT pg_terminate_backend(pid) FROM pg_locks " +
		"WHERE pid = $2 AND granted AND locktype = 'advisory' AND objsubid = 1 " +
		"AND classid::bigint = (($1::bigint >> 32) & 4294967295) AND objid::bigint = ($1::bigint & 4294967295)"
)

// Gone ends the remains of a connection in the server, and reports whether none are left.
func (s *server) Gone(ctx context.Context, of session.Conn) (gone bool) {
	c := of.(*conn)
	pg, err := s.link.Take(ctx)
	if err != nil {
		return false
	}
	defer link.HangUp(pg)
	if err := pg.QueryRow(ctx, tagFree, link.Plain, c.tag).Scan(&gone); err != nil {
		return false
	}
	if !gone && !c.pooled {
		_, _ = pg.Exec(ctx, endTagged, link.Plain, c.tag, int32(c.pid)) // without the right, the server ends it later
	}
	return gone
}
