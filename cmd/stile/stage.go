package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/exit"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
)

const (
	demoLease  = 2 * time.Second
	quickLease = time.Second
	quickMost  = 5 * time.Second
)

// What all demos keep to.
const (
	demoLimit = 50 * time.Second     // for each part, beside leases
	thinking  = 2 * time.Millisecond // at most, between reading and writing
	clearFor  = 5 * time.Second      // to take away what the demo made
	overtakes = 3                    // so often somebody writes before something is done to it

	paymentPatience = 6 * time.Second // with the store, beyond three leases: in Consul a session can last for two
)

// A stage is where a demo plays.
type stage struct {
	dir     string // the demo's own
	address *driver.Address
	url     string // of the store: a file in dir, unless one was chosen
	client  *stile.Client
	traits  driver.Traits
}

// newStage makes a stage, and opens the store: one that cannot be used is found out before the demo begins.
func newStage(ctx context.Context, s *store.Store) (_ *stage, err error) {
	g := &stage{}
	if g.dir, err = os.MkdirTemp("", "stile-demo-"); err != nil {
		return nil, exit.With(exit.Failed, err)
	}
	if err := g.open(ctx, s); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *stage) open(ctx context.Context, s *store.Store) error {
	url, err := s.Choose()
	if err != nil {
		return err
	}
	if url == store.DefaultURL {
		s.URL = "sqlite://" + filepath.ToSlash(g.path("locks.db"))
	}
	if g.address, g.url, err = s.Address(); err != nil {
		return err
	}
	s.TTL = quickLease // for which ZooKeeper makes the session as short as its server lets it be
	if g.client, err = s.Open(ctx, nil); err != nil {
		return err
	}
	s.TTL = 0
	if g.traits = g.client.Traits(); g.traits.Session == 0 {
		return nil
	}
	if err := g.client.Close(); err != nil {
		return err
	}
	g.client, err = s.Open(ctx, nil) // with a session that a slow machine keeps
	return err
}

// shortest is after how long at the least others get the lock of a process that died.
func (g *stage) shortest() time.Duration { return max(g.traits.MinTTL, g.traits.Session) }

// lease returns how long a lease of the demo lasts, and refuses --quick where the store has no lease so short.
func (g *stage) lease(quick bool) (time.Duration, error) {
	if !quick {
		return max(demoLease, g.shortest()), nil
	}
	if shortest := g.shortest(); shortest > quickLease {
		return 0, exit.Usage("--quick takes at most %v, and the shortest lease in %s is %v: leave --quick out", quickMost, g.address, shortest)
	}
	return quickLease, nil
}

// path returns the path of a file of the demo.
func (g *stage) path(file string) string { return filepath.Join(g.dir, file) }

func (g *stage) close() {
	if g.client != nil {
		_ = g.client.Close() // what it leaves in the store runs out
	}
	os.RemoveAll(g.dir)
}

var errDemoEnded = errors.New("the demo has ended")

// noTokens is said of a store such as memcached.
const noTokens = "Caveat: this store gives no tokens that a guard could compare, so there is no part with a guard."
