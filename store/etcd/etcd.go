// Package etcd keeps locks in etcd, in the layout of etcd's own mutex and election. The claims of a name are the keys
//
//	<prefix><name>/<lease in hex>
//
// in the order of their create revisions. Each key is attached to a lease of its own, and its create revision is the
// claim's ticket. So etcdctl lock, etcdctl elect, package concurrency of etcd's client and etcd's lock service exclude
// stile on a name, and stile excludes them. A key of theirs counts as an exclusive claim. Importing the package registers
// the schemes etcd and etcds.
//
// This is how a claim enters. [Driver.Enter] calls join, which takes a lease from the pool, or has etcd grant one; the id
// of the lease completes the key. From then on a goal decides on each step, and pursue takes it. The first goal is joins,
// and its first step is a transaction: if no key stands under the name, put this one. If other keys stand there, the
// transaction changes nothing and returns them. Then joins admits the claim behind them, with a second transaction, or
// turns it away. The second goal is stands, which finds the claim's place. If the claim holds and has a lock-delay, stands
// also attaches its key to a second lease, longer by the delay.
//
// Entering a free lock takes one transaction, and leaving it takes another: the lease of a claim that left cleanly serves
// the next claim. A claim that waits learns of deletions from a watch of its name; all watches share one stream. Once the
// claims ahead leave room, Await answers that the claim holds, and no request is sent. A claim with a lock-delay enters
// again.
//
// The driver remembers each claim in one of these states. Only becomeLocked changes the state:
//
//	              its key is      where it
//	              in etcd         stands       ┌─────────┐
//	   ┌────────┐      ┌───────┐        ┌─────►│ waiting │
//	──►│ asking │─────►│ found │────────┤      └────┬────┘
//	   └────────┘      └───────┘        │      ┌────▼────┐
//	                    ▲               └─────►│ holding │
//	   another driver's │                      └─────────┘
//	   that is renewed  │
//	   or adopted       │
//
//	from found, waiting and holding             from each, and from asking
//	    │                                         │
//	    │ a watch reports  ┌─────────┐            ├─ etcd says that the key is not there,
//	    ├─────────────────►│ deleted │            │  or removed it ─────────────────────► gone
//	    │ its deletion     └────┬────┘            ├─ it left, and is kept for a while ──► kept
//	    │ Leave            ┌────▼────┐            └─ its lease ended ───────────────────► lost
//	    └─────────────────►│ leaving │
//	                       └─────────┘
//
// A claim begins to hold in noteQueue, by the queue that Enter read, or in ready, by the events that Await heard. It never
// waits again, since the claims ahead of it can only leave. Gone, kept and lost are final. The leases of a gone claim serve
// other claims, unless etcd may still apply a request about them. So each lease counts the requests about it whose outcomes
// are unknown, and serves no other claim while it counts one. The outcome of a request is therefore a matter of the leases,
// not a state of the claim.
//
// A goal is a function that decides the next step of a call: joins and stands for Enter, leaves and stays for Leave, amends
// for an amendment. Await needs no goal, and most claims of a Renew need none: their leases are kept alive together, and
// their keys are read together. The goal lives is for a claim whose key is gone, or whose keep-alives do not count. A goal
// only decides. Its steps are sent by pursue, and nothing else sends a transaction that changes the key of a claim of this
// client:
//
//	          ┌──────────────────────────────────────────────────────────┐
//	          │ the queue as it is then, or a lease that ended           │
//	          ▼                                                          │
//	view ──► goal ──► move ──► pursue: sends a transaction, or gets ─────┤
//	          │                leases, or keeps leases alive and reads   │ the answer is lost
//	          ▼ no move is left                                          ▼
//	         end, a value: it holds, waits, has left, …              the call fails, and the leases
//	                                                                 of the request serve no other claim
//
// Since goals only decide, TestGoals walks through all that can happen to a few claims, with the goals that ship
// (walk_test.go, model_test.go). TestClaimWorlds walks through the states above, with overlapping calls. A key also goes
// when its lease ends, and when an operator removes it by Break.
//
// A leader that was replaced may still end any lease that it knows. term.go has the rule by which claims outlive this.
//
// The parts are the wire (call.go), which sends requests and knows nothing of claims; the batcher (batch.go), which sends
// transactions of several names in one; the pool of leases (lease.go), and the keepAliver (keepalive.go), which keeps
// leases alive; the watches (queuewatch.go), which pass events to the listeners of claims (listener.go); the table of
// claims (claims.go, state.go); the goals (goal.go), whose transactions are made in ops.go and sent by pursue.go; and the
// calls, which are methods of Driver in files of their own. One mutex guards the claims and the watches.
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

// DefaultPrefix begins every key, unless Options.Prefix or Options.Bare says otherwise.
const DefaultPrefix = "stile/"

// Options change a [Driver]'s keys. Nil means the defaults, and the zero of each field means its default.
type Options struct {
	Prefix string // begins every key; "" means DefaultPrefix
	Bare   bool   // keys begin with the name, and Prefix is not used
}

// A Driver keeps locks in etcd. Its methods may be called concurrently.
type Driver struct {
	wire  *wire
	owned []*clientv3.Client // closed with the driver

	promised   promise.Promise
	keepAliver *keepAliver
	pool       *pool
	batch      *batcher
	claims     *claims
	watches    *watches

	life    *work.Life
	ctx     context.Context // life's
	closing sync.Once

	mu sync.Mutex // guards the claims and the watches
}

var _ interface {
	driver.Driver
	driver.Lister
	driver.Watcher
	driver.Breaker
	driver.Alerter
	driver.Adopter
	driver.Identifier
} = (*Driver)(nil)

// New returns a driver that uses the caller's client. It asks the servers for their traits, and fails if none answers
// within 2 seconds, or if one refuses. Closing the driver does not close the client.
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

// Traits returns the servers' promises. The driver asks the servers again now and then: members come and go while
// connections stay.
func (d *Driver) Traits() driver.Traits { return d.promised.Traits() }

// Alert sets the function that the driver calls with the ids of claims to renew at once.
func (d *Driver) Alert(endangered func(ids ...string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watches.endangered = endangered
}

// Close ends every call, and revokes the leases that no claim uses, for at most a second. It closes the client, unless the
// caller brought it to New. Closing twice is harmless. The error is always nil.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.life.End() // under mu: not while a watch begins
	d.mu.Unlock()
	d.closing.Do(func() {
		d.pool.close()
		d.life.Wait()
		for _, c := range d.owned {
			_ = c.Close() // an error says that it was closed, or that its connections were broken; neither matters here
		}
	})
	return nil
}
