// Package sqldb keeps locks in a SQL database, through database/sql. It imports no SQL driver: the caller brings the
// *sql.DB. The database is SQLite, for the processes of one host; package sqlite opens one by its path, and most programs
// want that.
//
// Each verb is one transaction that reads the queue of a name, lets [driver.Queue] decide, and writes what has changed.
// A waiter learns that it holds at once from a client of its own process, and by polling SQLite's data_version every few
// milliseconds from others.
//
// Leases are timed by the clock of the host that counts on while the machine sleeps and that nobody can set. Claims do
// not survive a boot, which no process that held a lock survives either.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
)

// Options are what [New] can be told. Nil and the zero value mean the defaults.
type Options struct {
	// Prefix begins the names of the tables: letters, digits and _, not a digit first. Empty means "stile_".
	Prefix string

	// Busy is how long a call waits while another process writes. 0 means five seconds.
	Busy time.Duration

	// Label is what errors call the database. Empty means "the database".
	Label string

	// Moved returns an error when the database is no longer the one that was opened, such as for a file that was
	// replaced. It is called before each use and must be quick. Nil means that nobody looks.
	Moved func() error
}

// A Driver keeps locks in a database. It implements [driver.Driver], [driver.Lister], [driver.Watcher] and
// [driver.Breaker].
type Driver struct {
	options     Options
	incarnation string // of the tables, when they were opened
	boot        string // this boot; empty where the system does not tell it, and then the wall clock times leases
	write, read *session
	poll        *poller

	closing sync.Once
	closed  chan struct{}
}

var tablePrefix = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,31}$`)

// New returns a driver that keeps its locks in db, and makes its tables there if they are missing. The driver takes two
// connections out of the pool for as long as it is open, and leaves db open when it closes.
//
// The database must be a file on a local disk. New puts it into WAL mode, for good, and sets busy_timeout and
// synchronous on its own two connections.
func New(ctx context.Context, db *sql.DB, o *Options) (*Driver, error) {
	d := &Driver{boot: boottime.ID(), closed: make(chan struct{})}
	if o != nil {
		d.options = *o
	}
	if d.options.Prefix == "" {
		d.options.Prefix = "stile_"
	}
	if d.options.Busy == 0 {
		d.options.Busy = 5 * time.Second
	}
	if d.options.Label == "" {
		d.options.Label = "the database"
	}
	if !tablePrefix.MatchString(d.options.Prefix) {
		return nil, driver.Rejected(errors.New("the prefix must be up to 32 letters, digits and _, and begin with no digit"))
	}
	if n := db.Stats().MaxOpenConnections; n == 1 {
		return nil, driver.Rejected(errors.New("the pool may open one connection; locks take two"))
	}
	text := statements(sqliteText, d.options.Prefix)
	d.write, d.read = newSession(db, text), newSession(db, text)
	d.poll = newPoller(d)
	if err := d.prepare(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// now is the lease clock in microseconds. All processes of the host read the same.
func (d *Driver) now() int64 {
	if d.boot == "" {
		return time.Now().UnixMicro()
	}
	return boottime.Now().Microseconds()
}

// Enter is [driver.Driver.Enter].
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (p driver.Place, err error) {
	failed := d.change(ctx, func(t *transaction) error {
		return t.do(c.Name, func(q *driver.Queue) { p, err = q.Enter(t.now, t.stamp, c) })
	})
	if failed != nil {
		return driver.Place{}, failed
	}
	return p, err
}

// renewBatch is how many claims are renewed in one transaction, so that others get a turn in between.
const renewBatch = 64

// Renew is [driver.Driver.Renew].
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	answers := make([]driver.Renewal, len(cs))
	for from := 0; from < len(cs); from += renewBatch {
		batch := answers[from:min(from+renewBatch, len(cs))]
		failed := d.change(ctx, func(t *transaction) error {
			for i := range batch {
				c := cs[from+i]
				err := t.do(c.Name, func(q *driver.Queue) { batch[i].TTL, batch[i].Err = q.Renew(t.now, c) })
				if err != nil {
					return err
				}
			}
			return nil
		})
		if failed != nil {
			for i := range batch {
				batch[i] = driver.Renewal{Err: gone(failed)}
			}
		}
	}
	return answers
}

// Leave is [driver.Driver.Leave].
func (d *Driver) Leave(ctx context.Context, l *driver.Departure) (err error) {
	failed := d.change(ctx, func(t *transaction) error {
		return t.do(l.Claim.Name, func(q *driver.Queue) { err = q.Leave(t.now, l) })
	})
	if failed != nil {
		return gone(failed)
	}
	return err
}

// Break is [driver.Breaker.Break].
func (d *Driver) Break(ctx context.Context, b *driver.Breakage) (s driver.Standing, err error) {
	failed := d.change(ctx, func(t *transaction) error {
		return t.do(b.Name, func(q *driver.Queue) { s, err = q.Break(t.now, b.Ticket) })
	})
	if failed != nil {
		return driver.Standing{}, failed
	}
	return s, err
}

// Traits is [driver.Driver.Traits].
func (d *Driver) Traits() driver.Traits {
	t := driver.Traits{
		Store: "sqlite", Ordered: true, Shared: true, Permits: true, Delay: true, Fencing: driver.ClockFencing,
		Restart: true, Clock: "host", Wake: "poll",
		MinTTL: 100 * time.Millisecond, MaxTTL: driver.MaxTTL, Granularity: time.Millisecond,
		Notes: []string{
			"locks are for the processes of one host, and claims end when it boots",
			"tickets keep rising through crashes of processes; after a power loss or once the file is deleted, while the wall clock is right",
			"deleting or replacing the file while locks are held lets others in before the holders find out at their next renewal",
		},
	}
	if d.boot == "" {
		t.Notes = append(t.Notes, "this system does not tell a clock that all processes share, so leases are timed by the wall clock, and a step of it moves their ends")
	}
	return t
}

// Close is [driver.Driver.Close].
func (d *Driver) Close() error {
	d.closing.Do(func() {
		close(d.closed)
		d.poll.stop()
		for _, s := range []*session{d.write, d.read} {
			s.turn <- struct{}{} // for good: no call gets it again
			s.drop()
		}
	})
	return nil
}

func busyError(label string, waited time.Duration) error {
	return fmt.Errorf("another process has held the write lock of %s for %v", label, waited)
}

// A movedError says that the database is not the one that was opened.
type movedError struct{ reason error }

func (e *movedError) Error() string {
	return e.reason.Error() + ": close the client and open it again"
}

func (e *movedError) Unwrap() error { return e.reason }

// gone adds that a claim is not there, if the reason for the error is that the database went away with it.
func gone(err error) error {
	if _, moved := errors.AsType[*movedError](err); moved {
		return fmt.Errorf("%w: %w", driver.ErrGone, err)
	}
	return err
}
