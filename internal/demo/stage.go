//go:build unix

// Package demo is the part that all demos share: a stage with a store, processes that take orders and report, faults
// that hit one of them where it waits, and the display of all this.
package demo

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

// Bounds of all demos.
const (
	Limit     = 50 * time.Second     // for each part, beside leases
	Thinking  = 2 * time.Millisecond // at most, between reading and writing
	ClearFor  = 5 * time.Second      // to remove what the demo made
	Overtakes = 3                    // how often somebody writes before the next fault, or before a stopped process continues

	Patience = 6 * time.Second // for the store, beyond three leases: in Consul a session can last for two
)

// A Stage is the folder and the store of a demo.
type Stage struct {
	Dir     string // the demo's own
	Address *driver.Address
	URL     string // of the store: a file in dir, unless one was chosen
	Client  *stile.Client
	Traits  driver.Traits
}

// A Store opens the store of a demo's locks.
type Store interface {
	// Choose returns the store's address and URL, and keeps its secrets. If nobody chose a store, it is the SQLite file of a path.
	Choose(file string) (*driver.Address, string, error)
	// Open opens the store for leases of a TTL; 0 means sessions of the usual length.
	Open(ctx context.Context, ttl time.Duration) (*stile.Client, error)
}

// NewStage makes a stage, and opens the store, so that a store that cannot be used is found before the demo begins.
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
	// ZooKeeper's sessions are as short as the lease, or as the server allows.
	if g.Client, err = s.Open(ctx, quickLease); err != nil {
		return err
	}
	if g.Traits = g.Client.Traits(); g.Traits.Session == 0 {
		return nil
	}
	if err := g.Client.Close(); err != nil {
		return err
	}
	g.Client, err = s.Open(ctx, 0) // with a session that lasts on a slow machine
	return err
}

// shortest returns how long others must wait at least for the lock of a dead process.
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
		_ = g.Client.Close() // its remains in the store expire
	}
	os.RemoveAll(g.Dir)
}

// NoTokens is the caveat for a store such as memcached.
const NoTokens = "Caveat: this store gives no tokens that a guard could compare, so there is no part with a guard."
