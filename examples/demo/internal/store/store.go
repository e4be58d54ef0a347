//go:build unix

// Package store opens the store of a demo's locks: the chosen one, or a file that the demo removes.
package store

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/opening"
	_ "github.com/stilelock/stile/store/consul"
	_ "github.com/stilelock/stile/store/etcd"
	_ "github.com/stilelock/stile/store/memcached"
	_ "github.com/stilelock/stile/store/memory" // for the machines of demo cron that know no other machine
	_ "github.com/stilelock/stile/store/mysql"
	_ "github.com/stilelock/stile/store/postgres"
	_ "github.com/stilelock/stile/store/redis"
	_ "github.com/stilelock/stile/store/shard"
	_ "github.com/stilelock/stile/store/sqlite"
	_ "github.com/stilelock/stile/store/zookeeper"
)

// A Store is the store of the locks: --url, else STILE_URL, else beside the demo's data, else a file.
type Store struct {
	Beside string // the URL of the demo's data; empty if that is no store

	given   string // --url
	address *driver.Address
	url     string
}

// Flags adds --url.
func (s *Store) Flags(f *flag.FlagSet) {
	f.Func("url", "the `URL` of the store of the locks (default: STILE_URL, else beside the data, else a new SQLite file)",
		func(url string) error {
			if s.given = url; url == "" {
				return errors.New("it is the URL of a store; leave it out for a file")
			}
			return nil
		})
}

// Choose implements [demo.Store].
func (s *Store) Choose(file string) (*driver.Address, string, error) {
	url, set := os.LookupEnv(demo.URLVariable)
	if set && url == "" {
		return nil, "", exit.Usage("%s is set, but empty: it is the URL of a store; unset it for a file", demo.URLVariable)
	}
	s.url = cmp.Or(s.given, url, s.Beside, "sqlite://"+file)
	a, err := driver.ParseAddress(s.url)
	if err != nil {
		return nil, "", exit.Usage("%w", err)
	}
	if a.Scheme == "memory" {
		return nil, "", exit.Usage("memory:// keeps locks within one process, and a demo has many; leave --url out for a file")
	}
	if opening.Hide(a, s.url) && s.given != "" {
		Warn("url")
	}
	s.address = a
	return a, s.url, nil
}

// Warn warns that a flag shows its password to others.
func Warn(flag string) {
	fmt.Fprintf(os.Stderr, "demo: warning: everybody on this machine can read the password in --%s\n", flag)
}

// Open implements [demo.Store].
func (s *Store) Open(ctx context.Context, ttl time.Duration) (*stile.Client, error) {
	return s.open(ctx, ttl, nil)
}

// Locks opens the store for a process of a demo, whose leases last for a TTL.
func Locks(ctx context.Context, ttl time.Duration) (*stile.Client, error) {
	s := &Store{}
	if _, _, err := s.Choose(""); err != nil {
		return nil, err
	}
	return s.open(ctx, ttl, &stile.Options{LockOptions: stile.LockOptions{TTL: ttl}})
}

func (s *Store) open(ctx context.Context, ttl time.Duration, o *stile.Options) (*stile.Client, error) {
	c, err := stile.Open(ctx, opening.WithSession(s.address, s.url, ttl), o)
	if err == nil {
		return c, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	return nil, opening.Failed(s.address, err)
}

var _ demo.Store = (*Store)(nil)
