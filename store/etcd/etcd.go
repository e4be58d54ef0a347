// Package etcd keeps locks in etcd, in the layout of etcd's own mutex and election: the claims of a name are the keys
//
//	<prefix><name>/<lease in hex>
//
// in the order of their create revisions, each attached to a lease of its own. So etcdctl lock, etcdctl elect, package
// concurrency of etcd's client and etcd's lock service exclude stile on a name, and stile excludes them. Their keys count
// as exclusive claims. Importing the package registers the schemes etcd and etcds.
//
// Entering a free lock is one transaction, and leaving is another: a lease that a claim left cleanly serves the next claim.
// Waiting costs only one watch per name; all watches share one stream. A claim's create revision is its ticket.
//
// What the driver knows of a claim is one state, which one function moves, become:
//
//	              its key is      where it
//	              in etcd         stands       ┌─────────┐
//	   ┌────────┐      ┌───────┐        ┌─────►│ waiting │
//	──►│ asking │─────►│ found │────────┤      └────┬────┘
//	   └────────┘      └───────┘        │      ┌────▼────┐
//	                    ▲               └─────►│ holding │
//	   another driver's │                      └─────────┘
//	   that is renewed  │
//
//	from found, waiting and holding                    from each, and from asking
//	    │                                                │
//	    │ its deletion is heard   ┌─────────┐            ├─ etcd says that its key is not there,
//	    ├────────────────────────►│ deleted │            │  or has removed it ───────────────────► gone
//	    │                         └────┬────┘            ├─ it is kept after it has left ────────► kept
//	    │ Leave                   ┌────▼────┐            └─ its lease is no more ────────────────► lost
//	    └────────────────────────►│ leaving │
//	                              └─────────┘
//
// A claim that holds never waits again: what stands ahead of it only goes. Gone, kept and lost are the ends. The leases of a
// claim that is gone serve others, unless a request about it may be applied yet: who asks for a change of a key counts with its
// leases until the outcome is known, and one that is counted passes to nobody. What became of a request is thus no state of the
// claim's, but of the leases that it is about.
//
// A claim enters by two goals, joins and stands. The first puts its key, unless the queue is another than it was seen, and the
// second says where it stands. The goals lives, leaves, stays and amends are of the other calls. A goal only decides, and pursue
// is the one place that sends what changes the key of a claim:
//
//	          ┌─────────────────────────────────────────────────────────────┐
//	          │ the queue as it is then, or that a lease is no more         │
//	          ▼                                                             │
//	view ──► goal ──► move ──► pursue: a transaction, or leases to have ────┤
//	          │                in hand, or keep-alives and then a read      │ the answer is lost
//	          ▼ no move is left                                             ▼
//	         end, a value: it holds, waits, has left, …                    the call fails, and the leases
//	                                                                       that it was about serve nobody else
//
// Since goals only decide, TestGoals walks all that can happen to a few claims, with the goals that ship. A key goes in two other
// ways too: its lease ends, and an operator removes it, by Break.
//
// A leader that was replaced may end any lease that it knows: term.go has the rule by which claims outlive that.
//
// The parts are the wire, which sends requests and knows nothing of claims; the pool of leases, and what keeps leases alive; the
// watches, which tell the listeners of claims what goes on; the table of claims, with one mutex for both; and the calls, which
// are methods of Driver.
//
// A user of the server needs the right to read and write the keys under the prefix, and no other right:
//
//	etcdctl role grant-permission locks readwrite --prefix stile/
package etcd

import (
	"context"
	"sync"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/promise"
	"github.com/stilelock/stile/internal/work"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// DefaultPrefix is what keys begin with.
const DefaultPrefix = "stile/"

// Options change how a [Driver] uses its client. Nil means the defaults, and so does the zero of each field.
type Options struct {
	Prefix string // what keys begin with
	Bare   bool   // keys begin with the name, and Prefix is not used
}

// A Driver keeps locks in etcd. Its methods may be called at once.
type Driver struct {
	wire  *wire
	owned []*clientv3.Client // to be closed with the driver

	promised   promise.Promise
	keepAliver *keepAliver
	pool       *pool
	batch      *batcher
	claims     *claims
	watches    *watches

	life    *work.Life
	ctx     context.Context // of the life
	closing sync.Once

	mu sync.Mutex // guards the claims and the watches
}

var _ interface {
	driver.Driver
	driver.Lister
	driver.Watcher
	driver.Breaker
	driver.Alerter
	driver.Identifier
} = (*Driver)(nil)

// New returns a driver that uses the caller's client, and asks the servers for what they can promise. Closing the driver
// does not close the client.
func New(ctx context.Context, client *clientv3.Client, o *Options) (*Driver, error) {
	if o == nil {
		o = &Options{}
	}
	prefix := o.Prefix
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if o.Bare {
		prefix = ""
	}
	d := newDriver(prefix)
	d.use(client)
	d.wire.user, d.wire.secret = client.Username, client.Password
	if err := d.probe(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

func newDriver(prefix string) *Driver {
	d := &Driver{life: work.Begin()}
	d.ctx = d.life.Context()
	d.promised.Life, d.promised.Ask = d.life, d.promises
	d.wire = newWire(prefix, d.life)
	d.pool = newPool(d.wire)
	d.batch = &batcher{wire: d.wire}
	d.watches = newWatches(&d.mu, d.wire)
	d.claims = newClaims(&d.mu, d.pool, d.watches)
	return d
}

func (d *Driver) use(client *clientv3.Client) {
	d.wire.client = client
	d.keepAliver = newKeepAliver(d.wire)
}

// Traits tells what the servers can promise. They are asked again now and then: members come and go while connections stay.
func (d *Driver) Traits() driver.Traits { return d.promised.Traits() }

// Alert names the function that hears of claims that had better be renewed at once.
func (d *Driver) Alert(endangered func(ids ...string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watches.endangered = endangered
}

// Close ends every call. It closes the client too, unless that is the caller's own. Leases that no claim uses are given
// back, if etcd answers soon.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.life.End() // not while a claim's queue begins to be watched
	d.mu.Unlock()
	d.closing.Do(func() {
		d.pool.close()
		d.life.Wait()
		for _, c := range d.owned {
			_ = c.Close() // it says that it was closed, or that its connections were broken: neither matters any more
		}
	})
	return nil
}
