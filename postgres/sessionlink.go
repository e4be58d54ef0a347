package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
)

// A link is the connection that a session's locks live on.
type link struct {
	conn   *pgx.Conn // nil: there is none
	pid    uint32    // the backend that has the locks
	spoke  time.Time // when the last statement was answered
	unhook func()    // ends the watch over the idle connection; nil if there is none
	ended  chan struct{}
}

var (
	errShared = errors.New("postgres is behind a pooler that shares connections between transactions, where advisory locks go astray: use the server's own address, or leave out mode=session")
	errMoved  = errors.New("the locks' connection leads to another backend than before, as through a pooler")
)

const (
	// answerWithin is how long a statement may take. Then the connection is given up.
	answerWithin = 10 * time.Second

	// atEase is how long the connection is idle before its end is watched for.
	atEase = time.Millisecond
)

// connect begins a new session.
func (s *session) connect() error {
	ctx, cancel := context.WithTimeout(s.db.ctx, probeWithin)
	defer cancel()
	pooled, err := s.db.acquire(ctx)
	if err != nil {
		return err
	}
	conn := pooled.Hijack()
	if err := s.greet(ctx, conn); err != nil {
		hangUp(conn)
		return err
	}
	s.conn, s.spoke = conn, time.Now()
	return nil
}

// greet finds out who is at the other end, and has the server notice soon when this end is dead.
func (s *session) greet(ctx context.Context, conn *pgx.Conn) error {
	var f facts
	err := conn.QueryRow(ctx, "SELECT version(), current_setting('server_version_num')::int, pg_is_in_recovery(), pg_backend_pid()", plain).
		Scan(&f.version, &f.number, &f.standby, &s.pid)
	if err != nil {
		return s.db.explain(s.db.ctx, err)
	}
	f.isolation = "read committed" // which makes no difference to advisory locks
	if err := f.check(); err != nil {
		return driver.Refused(err)
	}
	if conn.PgConn().PID() != s.pid { // a pooler makes up its own
		if err := s.examine(ctx, conn); err != nil {
			return err
		}
	}
	seconds := strconv.Itoa(max(1, int(s.timeout/time.Second)/4))
	settings := [][2]string{
		{"statement_timeout", "0"}, {"tcp_keepalives_idle", seconds}, {"tcp_keepalives_interval", seconds},
		{"tcp_keepalives_count", "3"}, {"tcp_user_timeout", strconv.FormatInt(s.timeout.Milliseconds(), 10)},
	}
	if f.number >= 140000 {
		settings = append(settings, [2]string{"idle_session_timeout", strconv.FormatInt(s.timeout.Milliseconds(), 10)})
	}
	for _, set := range settings {
		if _, err := conn.Exec(ctx, "SELECT set_config($1::text, $2::text, false)", plain, set[0], set[1]); err != nil {
			return s.db.explain(s.db.ctx, err)
		}
	}
	if s.traits.Store == "" {
		s.traits = s.promise(&f)
	}
	return nil
}

// examine tells a pooler that gives each client a backend of its own, which is harmless, from one that does not: while
// another connection is in a transaction, this one must go on at its backend, and the other be at none of its.
func (s *session) examine(ctx context.Context, conn *pgx.Conn) error {
	other, err := s.db.acquire(ctx)
	if err != nil {
		return err
	}
	second := other.Hijack()
	defer hangUp(second)
	for range 4 {
		var mine, its uint32
		tx, err := second.Begin(ctx)
		if err == nil {
			err = tx.QueryRow(ctx, "SELECT pg_backend_pid()", plain).Scan(&its)
		}
		if err == nil {
			err = conn.QueryRow(ctx, "SELECT pg_backend_pid()", plain).Scan(&mine)
		}
		if err == nil && (mine != s.pid || its == s.pid) {
			err = driver.Refused(errShared)
		} else if err == nil {
			err = tx.Rollback(ctx)
		}
		if errors.Is(err, errShared) {
			return err
		}
		if err != nil {
			return s.db.explain(s.db.ctx, err)
		}
	}
	return nil
}

// promise says what advisory locks are good for.
func (s *session) promise(f *facts) driver.Traits {
	t := driver.Traits{
		Store: "postgres session", Shared: true, Pinned: true, Clock: "session", Wake: "poll",
		MinTTL: 100 * time.Millisecond, MaxTTL: driver.MaxTTL, Granularity: time.Millisecond,
	}
	note := func(format string, args ...any) { t.Notes = append(t.Notes, fmt.Sprintf(format, args...)) }
	note("The server is PostgreSQL %d.", f.number/10000)
	note("All locks of a client live on one connection and are freed when it ends. Whoever ends it (pg_terminate_backend, a restart, a failover) frees them at once, while their holder finds out when the end of the connection reaches it, or at the latest when its lease ends: for that time two may hold.")
	if f.number >= 140000 {
		note("The server ends the session of a client that it has not heard for %v (idle_session_timeout), which frees its locks.", s.timeout)
	} else {
		note("The server has no idle_session_timeout (PostgreSQL 14 has it): it frees the locks of a client that froze when TCP ends the connection.")
	}
	note("Waiters poll and come in no order: readers that come and go without a gap keep a writer out.")
	note("Keys are 64 bits of a hash, in one space with all other advisory locks of the database: names with one key keep each other out.")
	return t
}

// ask runs a statement whose first column is the backend. Without a connection it makes one.
func (s *session) ask(sql string, args []any, out ...any) error {
	s.unwatch()
	if s.conn == nil {
		if err := s.connect(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(s.db.ctx, min(answerWithin, s.timeout))
	defer cancel()
	var pid uint32
	err := s.conn.QueryRow(ctx, sql, append([]any{named}, args...)...).Scan(append([]any{&pid}, out...)...)
	s.spoke = time.Now() // an error too was an answer, unless it ended the connection
	if err == nil && pid == s.pid {
		return nil
	}
	if err == nil {
		s.over()
		return driver.Unreachable(errMoved)
	}
	if drops(err) || s.conn.IsClosed() {
		s.over()
	}
	return s.db.explain(s.db.ctx, err)
}

// watch has the end of the idle connection told to the loop.
func (s *session) watch() {
	ctx, cancel := context.WithCancel(s.db.ctx)
	ended, conn := make(chan struct{}), s.conn
	if !s.db.spawn(func() {
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
	s.unhook, s.ended = cancel, ended
}

// unwatch makes the connection free for a statement.
func (s *session) unwatch() {
	if s.unhook == nil {
		return
	}
	s.unhook()
	<-s.ended
	s.unwatched()
}

func (s *session) unwatched() {
	s.unhook()
	s.unhook, s.ended = nil, nil
	if s.conn.IsClosed() {
		s.over()
	}
}

// over says that the session is over, and ends its connection. Claims that wait lose nothing by it.
func (s *session) over() {
	hangUp(s.conn)
	s.conn = nil
	clear(s.doors)
	var ids []string
	for id, st := range s.stands {
		if st.holds {
			delete(s.stands, id)
			ids = append(ids, id)
		}
	}
	s.pause, s.look = leastPause, time.Now().Add(leastPause)
	if len(ids) == 0 {
		return
	}
	s.fallen = map[string]bool{}
	for _, id := range ids {
		s.fallen[id] = true
	}
	if f := s.endangered.Load(); f != nil {
		(*f)(ids...)
	}
}

// hangUp ends a connection without waiting for the server.
func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = conn.Close(ctx)
}
