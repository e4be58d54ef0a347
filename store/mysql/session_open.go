package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/secure"
	"github.com/stilelock/stile/internal/work"
)

// openSession opens a store whose locks live in connections. Parameters, besides those of the pool: session_timeout.
func openSession(ctx context.Context, a *driver.Address) (driver.Driver, error) {
	timeout, err := a.Duration("session_timeout", defaultTimeout)
	if err == nil && timeout < leastTimeout {
		err = fmt.Errorf("parameter session_timeout must be %v or more", leastTimeout)
	}
	if err != nil {
		return nil, driver.Refused(err)
	}
	config, most, err := poolConfig(a)
	if err != nil {
		return nil, driver.Refused(err)
	}
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if to, ok := ctx.Value(dialled{}).(*net.Conn); ok && err == nil {
			c = watchable(c)
			*to = c
		}
		return c, err
	}
	plain, err := mysql.NewConnector(config)
	if err != nil {
		return nil, driver.Refused(errors.New("the address cannot be used: " + secure.Hide(err.Error(), a.Password)))
	}
	c := &connector{Connector: plain}
	s := &session{
		connector: c, timeout: timeout, most: most, life: work.Begin(),
		claims: sessionClaims{byID: map[string]*sessionClaim{}, fallen: map[string]time.Duration{}},
	}
	s.says = &store{secret: a.Password, addr: config.Addr, ctx: s.life.Context()}
	s.promised.Life, s.promised.Connections = s.life, c.made.Load
	s.promised.Ask = func(ctx context.Context) (driver.Traits, error) { return s.promises(ctx, c) }
	if err := s.probe(ctx, c); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// probe finds out what is at the other end, and what it can promise.
func (s *session) probe(ctx context.Context, c *connector) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	f, err := s.ask(ctx, c)
	if err != nil {
		return err
	}
	if err := f.checkSession(); err != nil {
		return driver.Refused(err)
	}
	s.promised.Set(f.promiseSession(s.timeout))
	s.claims.exact = f.maria()
	return s.examine(ctx)
}

// ask asks the server on a connection of its own.
func (s *session) ask(ctx context.Context, c *connector) (facts, error) {
	db := c.anew()
	defer db.Close()
	return (&store{db: db, owned: c, secret: s.says.secret, addr: s.says.addr, ctx: s.life.Context()}).ask(ctx)
}

// promises asks the server anew what it can promise.
func (s *session) promises(ctx context.Context, c *connector) (driver.Traits, error) {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	f, err := s.ask(ctx, c)
	if err != nil {
		return driver.Traits{}, err
	}
	return without(f.promiseSession(s.timeout), f.checkSession()), nil
}

// checkSession returns why user-level locks cannot be kept on a server like this.
func (f facts) checkSession() error {
	if err := f.fit(); err != nil {
		return err
	}
	if f.readOnly() {
		return errReadOnly
	}
	return nil
}

var errShared = errors.New("a proxy shares the server's connections between its clients, where user-level locks go astray: " +
	"use the server's own address, or leave out mode=session")

// examine finds a proxy that shares connections: while another connection is in a transaction, this one must go on at its
// connection of the server, and the other be at none of its.
func (s *session) examine(ctx context.Context) error {
	var conns [2]*sessionConn
	for i := range conns {
		c, err := s.connect(ctx, connOpen)
		if err != nil {
			return err
		}
		defer c.close()
		conns[i] = c
	}
	one, two := conns[0], conns[1]
	for _, text := range []string{"START TRANSACTION", "ROLLBACK", "START TRANSACTION", "ROLLBACK"} {
		if _, err := two.raw.(sqldriver.ExecerContext).ExecContext(ctx, text, nil); err != nil {
			return s.explain(ctx, err)
		}
		_, err := two.ask(ctx, "SELECT CONNECTION_ID()")
		var got []int64
		if err == nil {
			got, err = one.ask(ctx, "SELECT IS_USED_LOCK('"+one.tag+"'), CONNECTION_ID()")
		}
		switch {
		case errors.Is(err, errMoved), err == nil && (one.id == two.id || got[0] != one.id):
			return driver.Refused(errShared)
		case err != nil:
			return s.explain(ctx, err)
		}
	}
	return nil
}

// promiseSession says what user-level locks are good for.
func (f facts) promiseSession(timeout time.Duration) driver.Traits {
	t := driver.Traits{
		Store: "mysql session", OwnClient: true, Clock: "session", Wake: "push",
		MinTTL: 100 * time.Millisecond, MaxTTL: driver.MaxTTL, Granularity: time.Millisecond,
	}
	t.Server = fmt.Sprintf("%s %d.%d", f.product(), f.release()/100, f.release()%100)
	t.Note("A lock lives on one of the client's connections and is free when that ends. Ending it (KILL, a restart, a failover) frees its locks at once, " +
		"while their holders find out when the end of the connection reaches it, or at the latest when their leases end: for that time two may hold.")
	t.Note("The server ends a connection that it has not heard for %v (wait_timeout), which frees its lock.", timeout)
	t.Note("The locks are those of one server, and known to no replica and no other node. " +
		"Waiters come in no order that is promised.")
	t.Note("A name of up to %d plain characters is the user-level lock of that name, which other programs share; "+
		"of any other the lock is 232 bits of a hash. MySQL takes names that differ only in case for one.", longestLock)
	t.Note("A claim that holds cannot be changed: a user-level lock has no record.")
	return t
}
