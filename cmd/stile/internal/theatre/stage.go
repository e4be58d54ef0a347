// Package theatre is what all demos share: a stage with a store, a cast of processes that are told what to do and report it,
// faults that hit one of them where it waits, and how all of it is shown.
//
// Of the other packages of the command it may import store and tty.
package theatre

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/exit"
)

const (
	demoLease  = 2 * time.Second
	quickLease = time.Second
	quickMost  = 5 * time.Second
)

// What all demos keep to.
const (
	Limit     = 50 * time.Second     // for each part, beside leases
	Thinking  = 2 * time.Millisecond // at most, between reading and writing
	ClearFor  = 5 * time.Second      // to take away what the demo made
	Overtakes = 3                    // so often somebody writes before something is done to it

	Patience = 6 * time.Second // with the store, beyond three leases: in Consul a session can last for two
)

// A Stage is where a demo plays.
type Stage struct {
	Dir     string // the demo's own
	Address *driver.Address
	URL     string // of the store: a file in dir, unless one was chosen
	Client  *stile.Client
	Traits  driver.Traits
}

// NewStage makes a stage, and opens the store: one that cannot be used is found out before the demo begins.
func NewStage(ctx context.Context, s *store.Store) (_ *Stage, err error) {
	g := &Stage{}
	if g.Dir, err = os.MkdirTemp("", "stile-demo-"); err != nil {
		return nil, exit.With(exit.Failed, err)
	}
	if err := g.open(ctx, s); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func (g *Stage) open(ctx context.Context, s *store.Store) error {
	url, err := s.Choose()
	if err != nil {
		return err
	}
	if url == store.DefaultURL {
		s.URL = "sqlite://" + filepath.ToSlash(g.Path("locks.db"))
	}
	if g.Address, g.URL, err = s.Address(); err != nil {
		return err
	}
	s.TTL = quickLease // for which ZooKeeper makes the session as short as its server lets it be
	if g.Client, err = s.Open(ctx, nil); err != nil {
		return err
	}
	s.TTL = 0
	if g.Traits = g.Client.Traits(); g.Traits.Session == 0 {
		return nil
	}
	if err := g.Client.Close(); err != nil {
		return err
	}
	g.Client, err = s.Open(ctx, nil) // with a session that a slow machine keeps
	return err
}

// shortest is after how long at the least others get the lock of a process that died.
func (g *Stage) shortest() time.Duration { return max(g.Traits.MinTTL, g.Traits.Session) }

// Lease returns how long a lease of the demo lasts, and refuses --quick where the store has no lease so short.
func (g *Stage) Lease(quick bool) (time.Duration, error) {
	if !quick {
		return max(demoLease, g.shortest()), nil
	}
	if shortest := g.shortest(); shortest > quickLease {
		return 0, exit.Usage("--quick takes at most %v, and the shortest lease in %s is %v: leave --quick out", quickMost, g.Address, shortest)
	}
	return quickLease, nil
}

// Path returns the path of a file of the demo.
func (g *Stage) Path(file string) string { return filepath.Join(g.Dir, file) }

// Close closes the store, and removes the files.
func (g *Stage) Close() {
	if g.Client != nil {
		_ = g.Client.Close() // what it leaves in the store runs out
	}
	os.RemoveAll(g.Dir)
}

// ErrEnded says that an actor is to play no more.
var ErrEnded = errors.New("the demo has ended")

// NoTokens is said of a store such as memcached.
const NoTokens = "Caveat: this store gives no tokens that a guard could compare, so there is no part with a guard."
