//go:build unix

// Package theatre is what all demos share: a stage with a store, processes that take orders and report,
// faults that hit one of them where it waits, and how all of it is shown.
package theatre

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/stilelock/stile"
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

// A Store is where the locks of a demo are kept.
type Store interface {
	// Choose returns the store's address and URL, and keeps its secrets. If nobody chose a store, it is the SQLite file of a path.
	Choose(file string) (*driver.Address, string, error)
	// Open opens it for leases of a TTL; 0 is for sessions as long as they usually are.
	Open(ctx context.Context, ttl time.Duration) (*stile.Client, error)
}

// NewStage makes a stage, and opens the store: one that cannot be used is found out before the demo begins.
func NewStage(ctx context.Context, s Store) (_ *Stage, err error) {
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

func (g *Stage) open(ctx context.Context, s Store) (err error) {
	if g.Address, g.URL, err = s.Choose(g.Path("locks.db")); err != nil {
		return err
	}
	// ZooKeeper makes the session of a short lease as short as its server lets it be.
	if g.Client, err = s.Open(ctx, quickLease); err != nil {
		return err
	}
	if g.Traits = g.Client.Traits(); g.Traits.Session == 0 {
		return nil
	}
	if err := g.Client.Close(); err != nil {
		return err
	}
	g.Client, err = s.Open(ctx, 0) // with a session that a slow machine keeps
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

// NoTokens is said of a store such as memcached.
const NoTokens = "Caveat: this store gives no tokens that a guard could compare, so there is no part with a guard."
