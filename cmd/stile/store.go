package main

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
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/sqldb"
)

// The environment names the store in urlVariable, or in urlFileVariable a file with its URL: CMD gets that for a --url
// with a password.
const (
	urlVariable     = "STILE_URL"
	urlFileVariable = "STILE_URL_FILE"
)

// defaultURL is the SQLite file in the user's state directory.
const defaultURL = "sqlite://"

// A store is where the locks are kept: the --url of the command line, or STILE_URL, or the default.
type store struct {
	url  string
	flag *pflag.Flag // --url

	warned bool // that the password can be read

	leaves bool // what is locked stays locked when this process ends
	silent bool // nobody wants to hear what happens to each of so many locks

	ttl time.Duration // of the one lock that is wanted; 0 if that is not known

	every stile.LockOptions // what each lock has that does not say otherwise

	within time.Duration // how long a store may take to open for a look; 0 for no limit but the library's
	tells  bool          // a person is told when it takes long to open for a look
}

// given reports whether the store is that of --url.
func (s *store) given() bool { return s.url != "" || s.flag != nil && s.flag.Changed }

// chosen reports whether somebody chose the store, be it the default one.
func (s *store) chosen() bool {
	_, variable := os.LookupEnv(urlVariable)
	_, file := os.LookupEnv(urlFileVariable)
	return s.given() || variable || file
}

// choose returns the store's URL. One that is set but empty is an error: a script whose variable is empty by mistake
// would lock where nobody else does.
func (s *store) choose() (string, error) {
	if s.given() {
		if s.url == "" {
			return "", usage("--url is empty: it is the URL of a store; leave it out for %s, or for the default store", urlVariable)
		}
		return s.url, nil
	}
	if url, set := os.LookupEnv(urlVariable); set {
		if url == "" {
			return "", usage("%s is set, but empty: it is the URL of a store; unset it for the default store", urlVariable)
		}
		return url, nil
	}
	path, set := os.LookupEnv(urlFileVariable)
	if !set {
		return defaultURL, nil
	}
	text, err := os.ReadFile(path)
	switch {
	case path == "":
		return "", usage("%s is set, but empty: it is a file with the URL of a store; unset it for the default store", urlFileVariable)
	case errors.Is(err, fs.ErrNotExist):
		return "", usage("%s: there is no %s, which a stile run makes for CMD, and removes when CMD ends", urlFileVariable, path)
	case err != nil:
		return "", usage("%s: %w", urlFileVariable, err)
	case strings.TrimSpace(string(text)) == "":
		return "", usage("%s: %s is empty", urlFileVariable, path)
	}
	return strings.TrimSpace(string(text)), nil
}

// address returns the store's URL, taken apart. Its password is kept out of all that is said from now on.
func (s *store) address() (*driver.Address, string, error) {
	url, err := s.choose()
	if err != nil {
		return nil, "", err
	}
	a, err := driver.ParseAddress(url)
	if err != nil {
		return nil, "", usage("%w", err)
	}
	if a.Scheme == "memory" {
		return nil, "", usage("memory:// keeps locks within one process, so a command locks nothing in it; leave --url out for a file on this machine")
	}
	if hide(a, url) && s.given() && !s.warned {
		s.warned = true
		warn("warning: everybody on this machine can read the password in --url; put the URL into %s instead", urlVariable)
	}
	return a, url, nil
}

// open opens the store. The observer may be nil.
func (s *store) open(ctx context.Context, observer stile.Observer) (*stile.Client, error) {
	a, url, err := s.address()
	if err != nil {
		return nil, err
	}
	begun, stop := time.Now(), whileOpening(a)
	if !s.silent {
		observer = aloud(observer, s.leaves)
	}
	c, err := connect(ctx, a, withSession(a, url, s.ttl), &stile.Options{Observer: observer, LockOptions: s.every})
	stop()
	if err == nil && url == defaultURL && !s.chosen() {
		noteLocal()
	}
	if err == nil {
		detail("%s is open, after %v", a, rounded(time.Since(begun)))
	}
	return c, err
}

// sessionDefault is how long a session of ZooKeeper lasts if the URL does not say it.
const sessionDefault = 10 * time.Second

// withSession returns the URL with a session as short as the lease: in ZooKeeper a claim lasts as long as its client's
// session, whatever the lease is, and this client has one claim.
func withSession(a *driver.Address, url string, ttl time.Duration) string {
	if a.Scheme != "zk" && a.Scheme != "zks" || a.Param("session", "") != "" || ttl == 0 || ttl >= sessionDefault {
		return url
	}
	return withParam(url, "session="+ttl.String())
}

// withParam returns a URL with one more parameter.
func withParam(url, parameter string) string {
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	return url + separator + parameter
}

// errNone says that the default store is not there, since nobody has taken a lock yet.
var errNone = errors.New("the default store has not been made")

// look opens the store for a command that only looks, which makes neither a file nor tables: a mistyped path is an error.
// The default store is not mistyped, and without it the error is errNone.
func (s *store) look(ctx context.Context) (*stile.Client, error) {
	a, url, err := s.address()
	if err != nil {
		return nil, err
	}
	if makes := a.Scheme == "sqlite" || a.Scheme == "shard"; makes && a.Param("create", "") == "" {
		url = withParam(url, "create=false")
	}
	if s.within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.within, errSilentStore)
		defer cancel()
	}
	if s.tells {
		defer whileOpening(a)()
	}
	c, err := connect(ctx, a, url, nil)
	if a.Scheme == "sqlite" && a.Path == "" && errors.Is(err, sqldb.ErrMissing) {
		return nil, errNone
	}
	return c, err
}

// nothing is a store in which no names are in use.
func nothing(ctx context.Context) (*stile.Client, error) { return stile.Open(ctx, "memory://", nil) }

func connect(ctx context.Context, a *driver.Address, url string, o *stile.Options) (*stile.Client, error) {
	c, err := stile.Open(ctx, url, o)
	missing, without := errors.AsType[*driver.MissingError](err)
	switch {
	case err == nil:
		return c, nil
	case without:
		return nil, usage("%s: this stile was built without its store (build tag no_%s)", a, path.Base(missing.Package()))
	case errors.Is(err, errSilentStore) && driver.IsUnreachable(err): // which tells what the last try came to
		return nil, wrapOpen(a, err)
	case errors.Is(context.Cause(ctx), errSilentStore):
		return nil, wrapOpen(a, errSilentStore)
	case context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	case driver.OutcomeOf(err) == driver.OutcomeRefused && !driver.IsUnreachable(err) && !noRoom(err):
		return nil, usage("%s: %w", a, err)
	}
	return nil, withStatus(exitStore, wrapOpen(a, err))
}

// wrapOpen says which store could not be opened.
func wrapOpen(a *driver.Address, err error) error { return fmt.Errorf("%s: %w", a, err) }

// hide keeps the passwords of a store's URL out of all that is said from now on, and those of the stores in it. It tells
// whether there is one.
func hide(a *driver.Address, url string) bool {
	keepSecret(a.Password, rawPassword(url))
	found := a.Password != ""
	for _, parameter := range []string{"sentinel_password", "password"} {
		secret := a.Param(parameter, "")
		keepSecret(secret)
		found = found || secret != ""
	}
	for entry := range strings.SplitSeq(a.Param("stores", "")+";"+a.Param("previous", ""), ";") {
		_, within, _ := strings.Cut(entry, "=")
		if store, err := driver.ParseAddress(within); err == nil {
			found = hide(store, within) || found
		}
	}
	return found
}

// rawPassword returns the password as it stands in a URL, which may be escaped.
func rawPassword(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	authority, _, _ := strings.Cut(rest, "/")
	i := strings.LastIndexByte(authority, '@')
	if i < 0 {
		return ""
	}
	_, password, _ := strings.Cut(authority[:i], ":")
	return password
}

var errSilentStore = withStatus(exitStore, errors.New("the store did not answer for as long as --wait allows"))
