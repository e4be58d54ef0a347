// Package store opens the store of the command line, or of the environment, for the verbs. It alone knows what a URL that is
// not given means, and where a user's files are.
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

// The environment names the store in URLVariable, or in URLFileVariable a file with its URL: CMD gets that for a --url
// with a password.
const (
	URLVariable     = "STILE_URL"
	URLFileVariable = "STILE_URL_FILE"
)

// DefaultURL is the SQLite file in the user's state directory.
const DefaultURL = "sqlite://"

// A Store is where the locks are kept: the --url of the command line, or STILE_URL, or the default.
type Store struct {
	URL  string
	Flag *pflag.Flag // --url

	Warned bool // that the password can be read

	Leaves bool // what is locked stays locked when this process ends
	Silent bool // nobody wants to hear what happens to each of so many locks

	TTL time.Duration // of the one lock that is wanted; 0 if that is not known

	Every stile.LockOptions // what each lock has that does not say otherwise

	Within time.Duration // how long a store may take to open for a look; 0 for no limit but the library's
	Tells  bool          // a person is told when it takes long to open for a look
}

// Given reports whether --url names the store.
func (s *Store) Given() bool { return s.URL != "" || s.Flag != nil && s.Flag.Changed }

// Chosen reports whether somebody chose the store, be it the default one.
func (s *Store) Chosen() bool {
	_, variable := os.LookupEnv(URLVariable)
	_, file := os.LookupEnv(URLFileVariable)
	return s.Given() || variable || file
}

// Choose returns the store's URL. One that is set but empty is an error: a script whose variable is empty by mistake
// would lock where nobody else does.
func (s *Store) Choose() (string, error) {
	if s.Given() {
		if s.URL == "" {
			return "", exit.Usage("--url is empty: it is the URL of a store; leave it out for %s, or for the default store", URLVariable)
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
		return "", exit.Usage("%s is set, but empty: it is a file with the URL of a store; unset it for the default store", URLFileVariable)
	case errors.Is(err, fs.ErrNotExist):
		return "", exit.Usage("%s: there is no %s, which a stile run makes for CMD, and removes when CMD ends", URLFileVariable, path)
	case err != nil:
		return "", exit.Usage("%s: %w", URLFileVariable, err)
	case strings.TrimSpace(string(text)) == "":
		return "", exit.Usage("%s: %s is empty", URLFileVariable, path)
	}
	return strings.TrimSpace(string(text)), nil
}

// Address returns the store's URL, taken apart. Its password is kept out of all that is said from now on.
func (s *Store) Address() (*driver.Address, string, error) {
	a, url, err := s.anyAddress()
	if err == nil && a.Scheme == "memory" {
		return nil, "", exit.Usage("memory:// keeps locks within one process, so a command locks nothing in it; leave --url out for a file on this machine")
	}
	return a, url, err
}

// anyAddress is Address, also of a store within this process.
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

// ErrNone says that the default store is not there, since nobody has taken a lock yet.
var ErrNone = errors.New("the default store has not been made")

// Look opens the store for a command that only looks, which makes neither a file nor tables: a mistyped path is an error.
// The default store is not mistyped, and without it the error is ErrNone.
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

// Driver opens the driver of the store, for whoever serves the store to others, and returns what people call the store. It may
// be one within this process, since the others come to it.
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

// unopened is the error of a store that could not be opened, as the command ends with it.
func unopened(ctx context.Context, a *driver.Address, err error) error {
	missing, without := errors.AsType[*driver.MissingError](err)
	switch {
	case err == nil:
		return nil
	case without:
		return exit.Usage("%s: this stile was built without its store (build tag no_%s)", a, path.Base(missing.Package()))
	case errors.Is(err, ErrSilent) && driver.IsUnreachable(err): // which has the outcome of the last try
		return WrapOpen(a, err)
	case errors.Is(context.Cause(ctx), ErrSilent):
		return WrapOpen(a, ErrSilent)
	case context.Cause(ctx) != nil:
		return context.Cause(ctx)
	}
	return opening.Failed(a, err)
}

// WrapOpen says which store could not be opened.
func WrapOpen(a *driver.Address, err error) error { return fmt.Errorf("%s: %w", a, err) }

// ErrSilent says that opening the store took longer than there was time for.
var ErrSilent = exit.With(exit.Store, errors.New("the store did not answer for as long as --wait allows"))
