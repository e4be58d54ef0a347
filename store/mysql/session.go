package mysql

import (
	"context"
	"crypto/sha256"
	sqldriver "database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/promise"
	"github.com/stilelock/stile/internal/secure"
	"github.com/stilelock/stile/internal/session"
	"github.com/stilelock/stile/internal/work"
)

// A userLocks is a server with user-level locks (GET_LOCK), which need no tables. Package session has the protocol.
type userLocks struct {
	connector sqldriver.Connector
	says      *store        // explains errors
	timeout   time.Duration // the server ends a connection after this long without a request
	promised  promise.Promise
	life      *work.Life
	exact     bool // the server distinguishes upper and lower case, as MariaDB does
}

// longestLock is how many characters the name of a user-level lock may have in MySQL. MariaDB allows 192.
const longestLock = 64

// lockName returns the user-level lock of a name. A plain and short name is its own lock, so that it also excludes programs
// that lock it by GET_LOCK; any other name becomes a hash. For MySQL, unlike MariaDB, names that differ only in case are one
// lock.
func lockName(name string) string {
	plain := len(name) <= longestLock && strings.TrimSpace(name) == name && !strings.HasPrefix(strings.ToLower(name), "stile-") &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '\'' || r == '\\' })
	if plain {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return ("stile-" + hex.EncodeToString(sum[:]))[:longestLock]
}

// openSession opens a store whose locks live in a connection. Its parameters are session_timeout and the pool's parameters.
func openSession(ctx context.Context, a *driver.Address) (driver.Driver, error) {
	s, err := newUserLocks(a)
	if err != nil {
		return nil, driver.Refused(err)
	}
	return s.open(ctx)
}

func newUserLocks(a *driver.Address) (*userLocks, error) {
	timeout, err := session.Timeout(a)
	if err != nil {
		return nil, err
	}
	config, _, err := poolConfig(a)
	if err != nil {
		return nil, err
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
		return nil, errors.New("the address cannot be used: " + secure.Hide(err.Error(), a.Password))
	}
	c := &connector{Connector: plain}
	s := &userLocks{connector: c, timeout: timeout, life: work.Begin()}
	s.says = &store{secret: a.Password, addr: config.Addr, owned: c, ctx: s.life.Context()}
	s.promised.Life, s.promised.Connections, s.promised.Ask = s.life, c.made.Load, s.promises
	return s, nil
}

// open identifies the server and its promises.
func (s *userLocks) open(ctx context.Context) (driver.Driver, error) {
	bound, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	f, err := s.askFacts(bound)
	if err == nil {
		err = driver.Refused(f.checkSession())
	}
	var home session.Conn
	if err == nil {
		s.promised.Set(f.promiseSession(s.timeout))
		s.exact = f.maria()
		home, err = s.examine(bound)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return session.New(s, s.life, s.timeout, home), nil
}

// askFacts asks the server on a connection of its own.
func (s *userLocks) askFacts(ctx context.Context) (facts, error) {
	db := s.says.owned.anew()
	defer db.Close()
	return (&store{db: db, owned: s.says.owned, secret: s.says.secret, addr: s.says.addr, ctx: s.life.Context()}).askFacts(ctx)
}

// promises asks again for the server's promises.
func (s *userLocks) promises(ctx context.Context) (driver.Traits, error) {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	f, err := s.askFacts(ctx)
	if err != nil {
		return driver.Traits{}, err
	}
	return without(f.promiseSession(s.timeout), f.checkSession()), nil
}

// checkSession returns the reason why user-level locks cannot be kept on this server.
func (f facts) checkSession() error {
	if err := f.fit(); err != nil {
		return err
	}
	if f.readOnly() {
		return errReadOnly
	}
	return nil
}

// promiseSession returns the promises of user-level locks.
func (f facts) promiseSession(timeout time.Duration) driver.Traits {
	t := driver.Traits{
		Store: "mysql session", OwnClient: true, Clock: "session", Wake: "poll",
		MinTTL: 100 * time.Millisecond, MaxTTL: driver.MaxTTL, Granularity: time.Millisecond,
	}
	t.Server = fmt.Sprintf("%s %d.%d", f.product(), f.release()/100, f.release()%100)
	t.Note("All locks of a client live on one connection, and are freed when it ends. Ending it (KILL, a restart, a failover) frees them at once, " +
		"while their holders find out when the end of the connection reaches them, or at the latest when their leases end: for that time two may hold.")
	t.Note("The server ends a connection that it has not heard for %v (wait_timeout), which frees its locks.", timeout)
	t.Note("The locks are those of one server, and known to no replica and no other node.")
	t.Note("Waiters come in no order, and other programs that wait for the lock in the server come first.")
	t.Note("A client waits in the server for one lock at a time. It tries the others now and then.")
	t.Note("A name of up to %d plain characters is the user-level lock of that name, which other programs share; "+
		"of any other the lock is 232 bits of a hash. MySQL takes names that differ only in case for one.", longestLock)
	t.Note("A claim that holds cannot be changed: a user-level lock has no record.")
	return t
}

// Key is the lock of a name. If the server ignores case in names, so does Key.
func (s *userLocks) Key(name string) string {
	if s.exact {
		return lockName(name)
	}
	return strings.ToLower(lockName(name))
}

// Traits returns the promises of user-level locks. The driver asks for them again after a reconnection.
func (s *userLocks) Traits() driver.Traits { return s.promised.Traits() }

// Close ends the store's life.
func (s *userLocks) Close() {
	s.life.End()
	s.life.Wait()
}
