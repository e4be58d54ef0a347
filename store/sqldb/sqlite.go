package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
)

// Options are the settings of [New]. Nil and the zero value mean the defaults.
type Options struct {
	// Prefix begins the names of the tables: letters, digits and _, but no digit first. Empty means "stile_".
	Prefix string

	// Busy is how long a call waits while another process writes. 0 means five seconds.
	Busy time.Duration

	// Label names the database in errors. Empty means "the database".
	Label string

	// Existing opens only a database that has the tables. Without them, New returns [ErrMissing] and writes nothing.
	Existing bool

	// Opened is called once, when SQLite has opened the database and its log, and before anything is written. New returns
	// its error. Nil means no call.
	Opened func(ctx context.Context) error

	// Moved returns an error when the database is no longer the one that was opened, for example because its file was
	// replaced. It is called before each use and must be fast. Nil means no check.
	Moved func() error

	// Signal returns the signal that wakes the waiters of other processes, or nil. It is called once, after Opened. Without
	// a signal, and when a wakeup is lost, waiters poll.
	Signal func() Signal
}

// ErrMissing says that a database has no tables of stile, so nobody has taken a lock there.
var ErrMissing = errors.New("nobody has taken a lock there yet")

// A lite is the [Store] of SQLite.
//
// Leases are timed by a clock of the host that counts on while the machine sleeps and that nobody can set. Claims do not
// survive a boot, which no process with a lock survives either. Polls read SQLite's data_version.
type lite struct {
	options     Options
	incarnation string // of the tables, when they were opened
	boot        string // this boot, or unknownBoot; empty if processes share no clock, and then the wall clock times leases
	write, read *session
	room        int  // pages in the log that cause a write-back
	rest        bool // it was written back, except for later writes of others
	closed      chan struct{}

	version int64     // of the database, at the last poll
	checked time.Time // the time of the last check whether the database moved
}

// unknownBoot stands for a boot that is known only by its clock.
const unknownBoot = "unknown"

func thisBoot() string {
	switch {
	case !boottime.Shared():
		return ""
	case boottime.ID() == "":
		return unknownBoot
	}
	return boottime.ID()
}

// New returns a driver that keeps its locks in db, an SQLite database, and makes its tables there if they are missing.
// The driver takes two connections out of the pool for as long as it is open, and leaves db open when it closes.
//
// The database must be a file on a local disk. New puts it into WAL mode permanently, and sets busy_timeout and synchronous
// on its own two connections. Leases are timed by a clock that nobody can set and that counts on while the machine sleeps;
// claims end at a boot. New does not notice whether the file, or SQLite's log beside it, is mounted without its folder or is
// removed later; package sqlite does.
func New(ctx context.Context, db *sql.DB, o *Options) (*Driver, error) {
	if n := db.Stats().MaxOpenConnections; n == 1 {
		return nil, driver.Refused(errors.New("the pool may open one connection; locks take two"))
	}
	return Connect(ctx, connecting(db), o)
}

// Connect is [New] without a pool: the driver opens two connections with connect, and new ones in place of failed ones.
func Connect(ctx context.Context, connect func(context.Context) (Conn, error), o *Options) (*Driver, error) {
	d := &lite{boot: thisBoot(), room: logMost, closed: make(chan struct{})}
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
	if !isPrefix(d.options.Prefix) {
		return nil, driver.Refused(errors.New("the prefix must be up to 32 letters, digits and _, and begin with no digit"))
	}
	text := statements(sqliteText, d.options.Prefix)
	d.write, d.read = newSession(connect, text), newSession(connect, text)
	if err := d.prepare(ctx); err != nil {
		d.Close()
		return nil, err
	}
	if d.options.Signal != nil {
		if b := d.options.Signal(); b != nil {
			return Over(&signalledStore{lite: d, signal: b}), nil
		}
	}
	return Over(d), nil
}

// isPrefix reports whether a text may begin the names of tables.
func isPrefix(prefix string) bool {
	for i, c := range []byte(prefix) {
		letter := c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || '9' < c) {
			return false
		}
	}
	return 0 < len(prefix) && len(prefix) <= 32
}

// now is the lease clock in microseconds. All processes of the host read the same.
func (d *lite) now() int64 {
	if d.boot == "" {
		return time.Now().UnixMicro()
	}
	return boottime.Now().Microseconds()
}

// Traits implements [Store].
func (d *lite) Traits() driver.Traits {
	t := driver.Traits{
		Store: "sqlite", Ordered: true, Shared: true, Permits: true, Delay: true, Amends: true, Fencing: driver.ClockFencing,
		Restart: true, Clock: "host", Wake: "poll",
		MinTTL: 100 * time.Millisecond, MaxTTL: driver.MaxTTL, Granularity: time.Millisecond,
		Notes: []string{
			"locks are for the processes of one host, and claims end when it boots",
			"tickets keep rising through crashes of processes; after a power loss or once the file is deleted, while the wall clock is right",
			"deleting or replacing the file, or its -wal and -shm, while locks are held lets others in before the holders find out at their next renewal",
			"containers that share the locks must mount the folder of the file, and not only the file",
		},
	}
	switch d.boot {
	case unknownBoot:
		t.Warn("", "a mount hides the kernel's boot id here, "+
			"so after a boot the claims of the earlier one may stand until their leases end")
	case "":
		t.Note("this system does not tell a clock that all processes share, " +
			"so leases are timed by the wall clock, and a step of it moves their ends")
	}
	return t
}

// Identity returns the id that was drawn when the tables were made. If they are made again, the driver is useless.
func (d *lite) Identity(ctx context.Context) (string, error) {
	if ctx.Err() != nil {
		return "", driver.Ended(ctx, false)
	}
	return d.incarnation, nil
}

// Close implements [Store].
func (d *lite) Close() error {
	close(d.closed)
	for _, s := range []*session{d.write, d.read} {
		s.turn <- struct{}{} // for good: no call gets it again
		s.drop()
	}
	return nil
}

func busyError(label string, waited time.Duration) error {
	return fmt.Errorf("another process has held the write lock of %s for %v", label, waited)
}
