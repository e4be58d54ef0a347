//go:build unix

// Package demo is what all demos share: a setup with a folder and a store, processes that take orders and report, faults
// that hit a process while it waits for an order, and the display on the terminal.
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
	Limit     = 50 * time.Second     // for each part, in addition to the leases
	Thinking  = 2 * time.Millisecond // at most, between a read and the write
	ClearFor  = 5 * time.Second      // to remove the demo's data
	Overtakes = 3                    // writes by others before the next fault, or before a stopped process continues

	Patience = 6 * time.Second // for the store, beyond three leases: a session of Consul may last for two
)

// A Setup has the folder and the store of a demo.
type Setup struct {
	Dir     string // temporary; Close removes it
	Address *driver.Address
	URL     string // of the store: a file in Dir, unless the user chose a store
	Client  *stile.Client
	Traits  driver.Traits
}

// A Store opens the store of a demo's locks.
type Store interface {
	// Choose returns the store's address and URL, and keeps its secrets. Without a choice of the user it is the SQLite file at
	// a path.
	Choose(file string) (*driver.Address, string, error)
	// Open opens the store for leases of ttl; 0 means sessions of the default length.
	Open(ctx context.Context, ttl time.Duration) (*stile.Client, error)
}

// NewSetup makes the folder and opens the store. An unusable store fails here, before the demo begins.
func NewSetup(ctx context.Context, s Store) (_ *Setup, err error) {
	g := &Setup{}
	if g.Dir, err = os.MkdirTemp("", "stile-demo-"); err != nil {
		return nil, exit.With(exit.Failed, err)
	}
	if err := g.open(ctx, s); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func (g *Setup) open(ctx context.Context, s Store) (err error) {
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

// shortest returns the least time that others wait for the lock of a dead process.
func (g *Setup) shortest() time.Duration { return max(g.Traits.MinTTL, g.Traits.Session) }

// Lease returns the length of the demo's leases. It refuses --quick if the store's shortest lease is too long for it.
func (g *Setup) Lease(quick bool) (time.Duration, error) {
	if !quick {
		return max(demoLease, g.shortest()), nil
	}
	if shortest := g.shortest(); shortest > quickLease {
		return 0, exit.Usage("--quick takes at most %v, and the shortest lease in %s is %v: leave --quick out", quickMost,
			g.Address, shortest)
	}
	return quickLease, nil
}

// Path returns the path of a file in the demo's folder.
func (g *Setup) Path(file string) string { return filepath.Join(g.Dir, file) }

// Close closes the store and removes the folder.
func (g *Setup) Close() {
	if g.Client != nil {
		_ = g.Client.Close() // claims that remain in the store expire
	}
	os.RemoveAll(g.Dir)
}

// NoTokens is the caveat for a store without fencing tokens, such as memcached.
const NoTokens = "Caveat: this store gives no tokens that a guard could compare, so there is no part with a guard."
