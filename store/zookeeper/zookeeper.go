// Package zookeeper keeps locks in ZooKeeper, 3.5.3 or newer.
//
// A name is a node, and each claim is an ephemeral sequential node under the name. Curator's mutex and go-zookeeper's lock
// name their nodes in the same way, so they and stile exclude each other on one path. Other layouts are for Curator's
// read-write lock, leader latch and semaphore. A claim holds by the order of the numbers that the server appends. Its ticket
// is the transaction that created it. A waiting claim watches only the nodes that must go before it. In the layout of the
// semaphore a claim has several nodes. Importing the package registers the schemes zk and zks.
//
// All claims of a driver live in one session. The time for which the ensemble certainly keeps the session bounds every
// lease, whatever lease was asked for. After a crash the ensemble frees the claims when the session's time is over. The
// driver itself keeps shorter leases: it removes the nodes of claims that nobody renews.
//
// The parts are packages, of which each knows only those below it:
//
//	     Driver: addresses, traits, calls; it chooses a recipe by the layout
//	                │                        │
//	                │              curator: Curator's semaphore,
//	                │              a claim of which has several nodes
//	                │                        │
//	              line: single locks, each on a path, and the janitor;
//	                  the state of a claim, with its drawing
//	                │                        │
//	ensemble: sessions, requests,       znode: names, layouts
//	what the answers mean               and data; pure
//	                │
//	              wire: ZooKeeper's protocol
//
// With acl=creator a user needs all permissions on the node that the prefix stands under, or, if that exists with the
// locks' parent under it, on that parent.
package zookeeper

import (
	"context"
	"fmt"
	"strings"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/promise"
	"github.com/stilelock/stile/store/zookeeper/internal/curator"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/line"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

const blindNote = "The servers are older than 3.6 and do not tell which nodes a session has: one that was missed stands until its " +
	"session ends."

// DefaultPrefix is the beginning of the paths of locks, below the chroot.
const DefaultPrefix = "stile/"

// A Driver keeps locks in ZooKeeper. Its methods may be called at once.
type Driver struct {
	zk     *ensemble.Ensemble
	line   *line.Keeper
	recipe recipe
	layout znode.Layout

	promised promise.Promise
}

// A recipe is how the nodes of a name make a lock of it. The layout chooses it when the driver is opened.
type recipe interface {
	Enter(ctx context.Context, dir string, c *driver.Claim) (driver.Place, error)
	Await(ctx context.Context, id string) error
	Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal
	Leave(ctx context.Context, dir string, l *driver.Release) error
	Listings(ctx context.Context, s *wire.Session, names []string) ([]driver.Listing, error)
	Breaks(ctx context.Context, s *wire.Session, dir string, b *driver.BreakRequest) (driver.ClaimInfo, error)

	// Overlook raises a signal when the queue of a name changes, and returns the calls whose watches do that.
	Overlook(ctx context.Context, dir string, b *line.Signal) ([]*wire.Call, error)

	// Alert names the function that is told the ids of claims in danger.
	Alert(endangered func(ids ...string))
}

var _ interface {
	driver.Driver
	driver.Lister
	driver.Watcher
	driver.Breaker
	driver.Alerter
	driver.Identifier
} = (*Driver)(nil)

func newDriver() *Driver {
	zk := ensemble.New()
	d := &Driver{zk: zk, line: line.New(zk)}
	d.promised.Life, d.promised.Ask = zk.Life, d.promises
	d.choose(znode.Mutex)
	return d
}

// choose chooses the recipe of a layout.
func (d *Driver) choose(l znode.Layout) {
	d.layout = l
	if l == znode.Semaphore {
		d.recipe = curator.New(d.zk, d.line)
	} else {
		d.recipe = line.NewSingle(d.zk, d.line, l)
	}
}

// shape refuses the kinds of claims that the layout does not have.
func (d *Driver) shape(c *driver.Claim) error {
	reader := c.Weight == 1 && c.Capacity == driver.All
	if c.Delay > 0 || d.layout == znode.ReadWrite && c.Weight != driver.All && !reader {
		return driver.ErrUnsupported
	}
	if d.layout != znode.Semaphore || c.Weight == driver.All {
		return nil
	}
	if c.Weight > znode.MaxPermits {
		const says = "in this layout each permit is a node, of which a claim may have %d, not %d"
		return driver.Refused(fmt.Errorf(says, znode.MaxPermits, c.Weight))
	}
	return nil
}

// Traits returns the ensemble's promises, and notes of nodes that are no claims in places for claims. The ensemble is asked
// again now and then, since its servers may change while the session lives.
func (d *Driver) Traits() driver.Traits {
	t := d.promised.Traits()
	if d.line.IsBlind() {
		t.Warn("ZooKeeper 3.6 or later", blindNote)
	}
	if odd := d.zk.Strangers(); len(odd) > 0 {
		t.Note("Nodes that are no claims stand where claims do, and are ignored: %s.", strings.Join(odd, ", "))
	}
	return t
}

// Close ends every call. If claims are left, they stay until the session's time is over; otherwise the session is closed.
func (d *Driver) Close() error {
	standing := d.line.End()
	d.zk.End(!standing)
	d.zk.Life.Wait()
	return nil
}
