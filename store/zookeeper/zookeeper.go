// Package zookeeper keeps locks in ZooKeeper, 3.5.3 or newer. Importing the package registers the schemes zk and zks.
//
// A name is a node, and each claim on the name is an ephemeral sequential node under it. Curator's mutex and go-zookeeper's
// lock name their nodes in the same way, so they and stile exclude each other on one path. Three more layouts do the same
// for Curator's read-write lock, leader latch and semaphore. In the layout of the semaphore a claim has several nodes.
//
// A claim enters as follows. [Driver.Enter], in calls.go, hands it to the recipe of the layout, which hands it to the keeper
// of package line. If the keeper has the claim in its table, it looks for the claim's node. Otherwise it puts the claim into
// the table, and sends two requests without a pause between them: one creates the node, to whose name the server appends the
// next number, and one lists the children of the name. In the order of these numbers the claim holds if its weight and the
// weights ahead of it fit the capacity; its ticket is the transaction that created its node. A claim that waits watches the
// nodes that must go before it holds; when a watch fires, [Driver.Await] returns, and the next Enter finds the claim's new
// place. Watches on a claim's own node show that others removed it, keep it or ask for it.
//
// The claims of a driver live in one session. No lease is longer than the time for which the ensemble certainly keeps the
// session, whatever lease was asked for. If the client crashes, the ensemble removes the nodes once the session times out.
// The driver itself ends shorter leases: it removes the nodes of claims that nobody renews.
//
// The parts are packages, and each knows only those below it:
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
// With acl=creator the user needs all permissions on the parent of the names' nodes or, until this parent exists, on the
// nearest node above it.
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

const blindNote = "The servers are older than 3.6 and do not tell which nodes a session has: one that was missed stands " +
	"until its session ends."

// DefaultPrefix is the beginning of the paths of locks, below the chroot.
const DefaultPrefix = "stile/"

// A Driver keeps locks in ZooKeeper. Its methods are safe for concurrent use.
type Driver struct {
	zk     *ensemble.Ensemble
	line   *line.Keeper
	recipe recipe
	layout znode.Layout

	promised promise.Promise
}

// A recipe makes a lock of the nodes of a name. The layout chooses the recipe when the driver is opened.
type recipe interface {
	Enter(ctx context.Context, dir string, c *driver.Claim) (driver.Place, error)
	Await(ctx context.Context, id string) error
	Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal
	Leave(ctx context.Context, dir string, l *driver.Release) error
	List(ctx context.Context, s *wire.Session, names []string) ([]driver.Listing, error)
	Break(ctx context.Context, s *wire.Session, dir string, b *driver.BreakRequest) (driver.ClaimInfo, error)

	// Overlook watches the queue of a name, and raises the signal when the queue changes. It returns the calls that set the
	// watches, so that the caller can drop them.
	Overlook(ctx context.Context, dir string, b *line.Signal) ([]*wire.Call, error)

	// Alert sets the function that gets the ids of claims in danger.
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

// shape refuses a claim of a kind that the layout does not have.
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

// Traits returns the ensemble's promises, and names nodes under a lock that are no claims. The driver asks the ensemble
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

// Close ends every call. If the driver has no claim left, Close also ends the session. Otherwise the session, and the
// claims' nodes with it, stay until it times out.
func (d *Driver) Close() error {
	standing := d.line.End()
	d.zk.End(!standing)
	d.zk.Life.Wait()
	return nil
}
