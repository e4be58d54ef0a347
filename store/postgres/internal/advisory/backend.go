package advisory

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/postgres/internal/link"
)

// A backend is the server's end of a connection that a session's locks live on. One goroutine owns it.
type backend struct {
	link    *link.Link
	timeout time.Duration     // the server ends a session from which it hears nothing for so long
	over    func(silent bool) // called when the connection is lost, with all that it has locked; silent: the server may not know

	server link.Server   // as it told of itself
	conn   *pgx.Conn     // nil: there is none
	pid    uint32        // the process that has the locks
	self   *ghost        // what is left of the connection, or of the last one, if it is given up
	spoke  time.Time     // when the last statement was answered
	unhook func()        // ends the watch over the idle connection; nil if there is none
	ended  chan struct{} // closed when that watch has ended
}

var (
	errShared = errors.New("postgres is behind a pooler that shares connections between transactions, " +
		"where advisory locks go astray: use the server's own address, or leave out mode=session")
	errMoved = errors.New("the locks' connection leads to another backend than before, as through a pooler")
)

const (
	// connectWithin is how long it may take to begin a session.
	connectWithin = 10 * time.Second

	// answerWithin is how long a statement may take. Then the connection is given up.
	answerWithin = 10 * time.Second

	// departWithin is how long a connection that is given up may take to cancel its statement. Then it is closed.
	departWithin = time.Second

	// atEase is how long the connection is idle before its end is watched for.
	atEase = time.Millisecond
)

// named has a statement prepared on the connection the first time.
const named = pgx.QueryExecModeCacheStatement

// connect begins a new session. Its errors say that what the session is for was not sent.
func (b *backend) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	conn, err := b.link.Take(ctx)
	if err != nil {
		return err
	}
	self := newGhost()
	if err := b.greet(ctx, conn, self); err != nil {
		link.HangUp(conn)
		return driver.NotYet(err)
	}
	b.conn, b.self, b.spoke = conn, self, time.Now()
	return nil
}

// greet finds out who is at the other end, gives that its tag, and has the server notice soon when this end is dead.
func (b *backend) greet(ctx context.Context, conn *pgx.Conn, self *ghost) error {
	v := &b.server
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid(), "+link.AboutServer, link.Plain).
		Scan(&b.pid, &v.Version, &v.Number, &v.Standby)
	if err != nil {
		return b.explain(err)
	}
	if err := v.Check(); err != nil {
		return driver.Refused(err)
	}
	self.pid, self.pooled = b.pid, b.link.Pooled(conn, b.pid)
	if self.pooled {
		if err := b.examine(ctx, conn); err != nil {
			return err
		}
	}
	seconds := strconv.Itoa(max(1, int(b.timeout/time.Second)/4))
	timeout := strconv.FormatInt(b.timeout.Milliseconds(), 10)
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
	if _, err := conn.Exec(ctx, set, link.Plain, names, values, self.tag); err != nil {
		return b.explain(err)
	}
	return nil
}

// endsIdle reports whether a server can end a session from which it hears nothing.
func endsIdle(v *link.Server) bool { return v.Number >= 140000 }

// examine tells a pooler that gives each client a backend of its own, which is harmless, from one that does not: while
// another connection is in a transaction, this one must go on at its backend, and the other be at none of its.
func (b *backend) examine(ctx context.Context, conn *pgx.Conn) error {
	second, err := b.link.Take(ctx)
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
			err = conn.QueryRow(ctx, "SELECT pg_backend_pid()", link.Plain).Scan(&mine)
		}
		if err == nil && (mine != b.pid || its == b.pid) {
			return driver.Refused(errShared)
		}
		if err == nil {
			err = tx.Rollback(ctx)
		}
		if err != nil {
			return b.explain(err)
		}
	}
	return nil
}

// A statement is never cut short by a caller's context, so only the link's can have ended one.
func (b *backend) explain(err error) error { return b.link.Explain(b.link.Context(), err) }

// ask runs a statement whose first column is the backend. Without a connection it makes one.
func (b *backend) ask(sql string, args []any, out ...any) error {
	b.unwatch()
	if b.conn == nil {
		if err := b.connect(b.link.Context()); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(b.link.Context(), min(answerWithin, b.timeout))
	defer cancel()
	var pid uint32
	err := b.conn.QueryRow(ctx, sql, append([]any{named}, args...)...).Scan(append([]any{&pid}, out...)...)
	b.spoke = time.Now() // an error too was an answer, unless it ended the connection
	if err == nil && pid == b.pid {
		return nil
	}
	if err == nil {
		b.end(false)
		return driver.Unreachable(errMoved)
	}
	if drops := link.Drops(err); drops || b.conn.IsClosed() {
		b.end(!drops)
	}
	return b.explain(err)
}

// wait waits in the server until a key can be locked, for as long as that takes. If ctx ends, the connection ends with it:
// the key may have been locked, and is free when the server has heard of the end. What ended so is never used again. It says
// which process is asked, before it asks. The statements answer with the process, and with whether they have locked the key.
func (b *backend) wait(ctx context.Context, sql string, asked *atomic.Uint32) error {
	if b.conn == nil {
		if err := b.connect(ctx); err != nil {
			return err
		}
	}
	asked.Store(b.pid)
	for {
		results, err := b.conn.PgConn().Exec(ctx, sql).ReadAll()
		b.spoke = time.Now()
		switch {
		case err != nil && ctx.Err() != nil && b.conn.IsClosed():
			b.depart()
			return err
		case err != nil:
			return err
		}
		row := results[len(results)-1].Rows[0]
		if string(row[0]) != strconv.Itoa(int(b.pid)) {
			return errMoved
		}
		if string(row[1]) == "t" {
			return nil
		}
	}
}

// depart waits until the server has been told of the end of a connection that was cut short, but not for long.
func (b *backend) depart() {
	timer := time.NewTimer(departWithin)
	defer timer.Stop()
	select {
	case <-b.conn.PgConn().CleanupDone():
	case <-timer.C:
		b.conn.PgConn().Conn().Close()
	}
}

// beat shows that the session lives.
func (b *backend) beat() error { return b.ask("SELECT pg_backend_pid()", nil) }

// tend keeps the session alive and watches over its idle connection. It returns when that is to be done again, which is
// never before the next statement if there is no connection.
func (b *backend) tend(now, never time.Time) time.Time {
	if b.conn != nil && now.Sub(b.spoke) >= b.timeout/3 {
		_ = b.beat() // who depends on it finds out by renewing
	}
	if b.conn != nil && b.unhook == nil && now.Sub(b.spoke) >= atEase {
		b.watch()
	}
	switch {
	case b.conn == nil:
		return never
	case b.unhook == nil:
		return b.spoke.Add(atEase)
	}
	return b.spoke.Add(b.timeout / 3)
}

// watch has the end of the idle connection told to the loop.
func (b *backend) watch() {
	ctx, cancel := context.WithCancel(b.link.Context())
	ended, conn := make(chan struct{}), b.conn
	if !b.link.Go(func() {
		defer close(ended)
		for {
			if _, err := conn.WaitForNotification(ctx); err != nil {
				return
			}
		}
	}) {
		cancel()
		return
	}
	b.unhook, b.ended = cancel, ended
}

// unwatch makes the connection free for a statement.
func (b *backend) unwatch() {
	if b.unhook == nil {
		return
	}
	b.unhook()
	<-b.ended
	b.unwatched()
}

// unwatched notes that the watch has ended, be it by the end of the connection.
func (b *backend) unwatched() {
	b.unhook()
	b.unhook, b.ended = nil, nil
	if b.conn.IsClosed() {
		b.end(false)
	}
}

// end ends the session and its connection, silent if the server may know nothing of that.
func (b *backend) end(silent bool) {
	b.hangUp()
	b.over(silent)
}

func (b *backend) hangUp() {
	b.unwatch()
	if b.conn != nil {
		link.HangUp(b.conn)
		b.conn = nil
	}
}
