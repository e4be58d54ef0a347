// Package sqlite keeps locks in an SQLite file, for the processes of one machine. It needs no server.
//
// Importing it registers the scheme "sqlite": sqlite:///path/locks.db opens that file, and sqlite:// the one of
// [DefaultPath]. A URL with three slashes and no path is an error. Parameters: prefix and busy, as in [Options], and
// create=false for Existing.
//
// SQLite keeps the newest claims in a log beside the file, so all processes that share the file must share its folder.
//
// SQLite's locks on the file belong to the process, and the system releases them when any descriptor of the file is closed.
// So no code of a program that uses a lock file may open it other than through modernc.org/sqlite, not even through another
// library that contains SQLite: that library does not know of these locks. Opening the file twice by this package is safe.
// See "How To Corrupt An SQLite Database File", section 2.2.
package sqlite

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/sqldb"
)

// Options are the settings of [Open]. Nil and the zero value mean the defaults.
type Options struct {
	Prefix string        // begins the names of the tables; empty means "stile_"
	Busy   time.Duration // how long a call waits while another process writes; 0 means five seconds

	// Existing opens only a file that has locks already, for commands that only look. Without one, Open makes nothing and
	// returns [sqldb.ErrMissing].
	Existing bool
}

func init() { driver.Register("sqlite", openAddress) }

func openAddress(ctx context.Context, a *driver.Address) (driver.Driver, error) {
	o := &Options{Prefix: a.Param("prefix", "")}
	var err error
	if o.Busy, err = a.Duration("busy", 0); err != nil {
		return nil, err
	}
	switch create := a.Param("create", "true"); create {
	case "true", "false":
		o.Existing = create == "false"
	default:
		return nil, driver.Refused(errors.New("parameter create must be true or false"))
	}
	if err := a.Done(); err != nil {
		return nil, err
	}
	if len(a.Hosts) > 0 || a.User != "" || a.Password != "" {
		return nil, driver.Refused(errors.New("a sqlite:// URL names a file, with three slashes: sqlite:///path/locks.db"))
	}
	if a.Slash && a.Path == "" { // a script with an empty variable would lock in a file of its own
		return nil, driver.Refused(errors.New(
			"a sqlite:/// URL names no file: it is sqlite:///path/locks.db, or sqlite:// for the default one"))
	}
	path := "/" + a.Path
	if a.Path == "" {
		if path, err = DefaultPath(); err != nil {
			return nil, driver.Refused(err)
		}
	}
	return Open(ctx, path, o)
}

// Open opens the locks in the file at path. If the file or its directory is missing, Open makes it, readable only by its
// owner.
//
// It refuses a file that is not a database, a directory that cannot be written, a network file system, on which SQLite's own
// locks do not work, a file that is mounted without its folder, and a file that another process has open with a log that is
// not at its path. If the file or its log is removed or replaced later, renewals answer [driver.ErrGone].
func Open(ctx context.Context, path string, o *Options) (driver.Driver, error) {
	if o == nil {
		o = &Options{}
	}
	path, err := checkPath(path, !o.Existing)
	if err != nil {
		return nil, driver.Refused(err)
	}
	f, err := openFiles(path, !o.Existing)
	if err != nil {
		return nil, driver.Refused(err)
	}
	f.patience = cmp.Or(o.Busy, 5*time.Second) / 2 // so that a caller that waits as long as Busy gets an error that says why
	s := &store{}
	s.Driver, err = sqldb.Connect(ctx, f.connect, &sqldb.Options{
		Prefix: o.Prefix, Busy: o.Busy, Label: "lock file " + path, Existing: o.Existing,
		Opened: f.opened, Moved: f.moved,
		Signal: func() sqldb.Signal {
			if s.signal = f.openSignal(); s.signal == nil {
				return nil
			}
			return s.signal
		},
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// A store is a driver with its signal.
type store struct {
	*sqldb.Driver
	signal *futexSignal // nil if there is none
	once   sync.Once
	err    error
}

// Close closes the driver and its signal.
func (s *store) Close() error {
	s.once.Do(func() {
		if s.err = s.Driver.Close(); s.signal != nil {
			s.err = errors.Join(s.err, s.signal.take())
		}
	})
	return s.err
}
