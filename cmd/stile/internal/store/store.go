// Package store opens the store of the command line, or of the environment, for the verbs. Only this package knows the
// default URL, and the places of a user's files.
//
// Of the other packages of the command it may import page, speech and tty.
package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/opening"
	"github.com/stilelock/stile/internal/phrase"
	"github.com/stilelock/stile/store/sqldb"
)

// The environment has the store's URL in URLVariable, or the path of a file with the URL in URLFileVariable: CMD gets the
// latter for a --url with a password.
const (
	URLVariable     = "STILE_URL"
	URLFileVariable = "STILE_URL_FILE"
)

// DefaultURL is the SQLite file in the user's state directory.
const DefaultURL = "sqlite://"

// A Store is the store of the locks: the --url of the command line, or STILE_URL, or the default.
type Store struct {
	URL  string
	Flag *pflag.Flag // --url

	Warned bool // the warning that others can read the password was shown

	Leaves bool // locks stay locked when this process ends
	Silent bool // the events of the many locks are not shown

	TTL time.Duration // of the one wanted lock; 0 if it is not known

	Every stile.LockOptions // the defaults of each lock

	Within time.Duration // how long a store may take to open for reading; 0 means only the library's limit
	Tells  bool          // a person is told when opening for reading takes long
}

// Given reports whether --url names the store.
func (s *Store) Given() bool { return s.URL != "" || s.Flag != nil && s.Flag.Changed }

// Chosen reports whether the user chose the store, even if it is the default store.
func (s *Store) Chosen() bool {
	_, variable := os.LookupEnv(URLVariable)
	_, file := os.LookupEnv(URLFileVariable)
	return s.Given() || variable || file
}

// Choose returns the store's URL. A URL that is set but empty is an error: a script whose variable is empty by mistake would
// lock in another store than the rest.
func (s *Store) Choose() (string, error) {
	if s.Given() {
		if s.URL == "" {
			return "", exit.Usage("--url is empty: it is the URL of a store; leave it out for %s, or for the default store",
				URLVariable)
		}
		return s.URL, nil
	}
	if url, set := os.LookupEnv(URLVariable); set {
		if url == "" {
			return "", exit.Usage("%s is set, but empty: it is the URL of a store; unset it for the default store", URLVariable)
		}
		return url, nil
	}
	path, set := os.LookupEnv(URLFileVariable)
	if !set {
		return DefaultURL, nil
	}
	text, err := os.ReadFile(path)
	switch {
	case path == "":
		return "", exit.Usage("%s is set, but empty: it is a file with the URL of a store; unset it for the default store",
			URLFileVariable)
	case errors.Is(err, fs.ErrNotExist):
		return "", exit.Usage("%s: there is no %s, which a stile run makes for CMD, and removes when CMD ends", URLFileVariable,
			path)
	case err != nil:
		return "", exit.Usage("%s: %w", URLFileVariable, err)
	case strings.TrimSpace(string(text)) == "":
		return "", exit.Usage("%s: %s is empty", URLFileVariable, path)
	}
	return strings.TrimSpace(string(text)), nil
}

// Address returns the store's parsed URL. From now on no message shows its password.
func (s *Store) Address() (*driver.Address, string, error) {
	a, url, err := s.anyAddress()
	if err == nil && a.Scheme == "memory" {
		return nil, "", exit.Usage("memory:// keeps locks within one process, so a command locks nothing in it; leave --url " +
			"out for a file on this machine")
	}
	return a, url, err
}

// anyAddress is Address, but also accepts a store within this process.
func (s *Store) anyAddress() (*driver.Address, string, error) {
	url, err := s.Choose()
	if err != nil {
		return nil, "", err
	}
	a, err := driver.ParseAddress(url)
	if err != nil {
		return nil, "", exit.Usage("%w", err)
	}
	if opening.Hide(a, url) && s.Given() && !s.Warned {
		s.Warned = true
		speech.Warn("warning: everybody on this machine can read the password in --url; put the URL into %s instead", URLVariable)
	}
	return a, url, nil
}

// Open opens the store. The observer may be nil.
func (s *Store) Open(ctx context.Context, observer stile.Observer) (*stile.Client, error) {
	a, url, err := s.Address()
	if err != nil {
		return nil, err
	}
	begun, stop := time.Now(), whileOpening(a)
	if !s.Silent {
		observer = speech.Aloud(observer, s.Leaves)
	}
	c, err := connect(ctx, a, opening.WithSession(a, url, s.TTL), &stile.Options{Observer: observer, LockOptions: s.Every})
	stop()
	if err == nil && url == DefaultURL && !s.Chosen() {
		noteLocal()
	}
	if err == nil {
		speech.Detail("%s is open, after %v", a, phrase.Rounded(time.Since(begun)))
	}
	return c, err
}

// ErrNone says that the default store does not exist, since nobody has taken a lock yet.
var ErrNone = errors.New("the default store has not been made")

// Look opens the store for a command that only reads. It makes neither a file nor tables: a mistyped path is an error. The
// default store cannot be mistyped: if it does not exist, the error is ErrNone.
func (s *Store) Look(ctx context.Context) (*stile.Client, error) {
	a, url, err := s.Address()
	if err != nil {
		return nil, err
	}
	if makes := a.Scheme == "sqlite" || a.Scheme == "shard"; makes && a.Param("create", "") == "" {
		url = opening.With(url, "create=false")
	}
	if s.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.Within, ErrSilent)
		defer cancel()
	}
	if s.Tells {
		defer whileOpening(a)()
	}
	c, err := connect(ctx, a, url, nil)
	if a.Scheme == "sqlite" && a.Path == "" && errors.Is(err, sqldb.ErrMissing) {
		return nil, ErrNone
	}
	return c, err
}

// Nothing is a store in which no names are in use.
func Nothing(ctx context.Context) (*stile.Client, error) { return stile.Open(ctx, "memory://", nil) }

// Driver opens the driver of the store, for a verb that serves the store to others, and returns the store's name for people.
// The store may be within this process, since the others reach it through the service.
func (s *Store) Driver(ctx context.Context) (d driver.Driver, name string, err error) {
	a, url, err := s.anyAddress()
	if err != nil {
		return nil, "", err
	}
	if name = a.String(); url == DefaultURL {
		name = "your default store"
	}
	defer whileOpening(a)()
	d, err = driver.Open(ctx, url)
	return d, name, unopened(ctx, a, err)
}

func connect(ctx context.Context, a *driver.Address, url string, o *stile.Options) (*stile.Client, error) {
	c, err := stile.Open(ctx, url, o)
	return c, unopened(ctx, a, err)
}

// unopened returns the error with which the command ends if the store could not be opened.
func unopened(ctx context.Context, a *driver.Address, err error) error {
	missing, without := errors.AsType[*driver.MissingError](err)
	switch {
	case err == nil:
		return nil
	case without:
		return exit.Usage("%s: this stile was built without its store (build tag no_%s)", a, path.Base(missing.Package()))
	case errors.Is(err, ErrSilent) && driver.IsUnreachable(err): // which has the error of the last try
		return WrapOpen(a, err)
	case errors.Is(context.Cause(ctx), ErrSilent):
		return WrapOpen(a, ErrSilent)
	case context.Cause(ctx) != nil:
		return context.Cause(ctx)
	}
	return opening.Failed(a, err)
}

// WrapOpen adds the store to the error of opening it.
func WrapOpen(a *driver.Address, err error) error { return fmt.Errorf("%s: %w", a, err) }

// ErrSilent says that the store was not open in time.
var ErrSilent = exit.With(exit.Store, errors.New("the store did not answer for as long as --wait allows"))
