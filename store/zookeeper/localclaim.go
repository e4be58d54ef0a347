package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// A localClaim is what the driver knows of a claim: its node, and its lease, which the driver keeps. It is in the driver's
// table before its node is asked for, and until the node is certainly gone, so that no node is left behind. The driver's mu
// guards the fields that change.
type localClaim struct {
	claim   driver.Claim  // as it entered
	dir     string        // parent path of its node
	session *wire.Session // its node's session

	create *wire.Call // request for the node; nil once the outcome is known
	was    string     // its former name, while another node may have replaced it
	name   string     // of the node; "" while unknown
	czxid  int64      // the transaction that made it
	ticket int64      // the transaction that made the first of its nodes
	data   int32      // version of its data

	state state         // moved by become
	gone  error         // why it must go: ErrGone or ErrSession; nil before that
	ends  time.Duration // when the lease ends, unless it is renewed; for a kept claim, when it must go

	own     *wire.Watch   // on its node, so that a removal is noticed
	watchAt time.Duration // when own must be set, if it does not stand
	guards  map[string]*wire.Watch
	next    *wire.Watch   // on the only node ahead of it, if no other node can replace that one; else nil
	signal  *signal       // raised when a claim ahead goes; nil while nobody watches
	head    *wire.Call    // answer about the claim at the head; nil while unknown
	tryAt   time.Duration // when to try again to remove the node
	tended  bool          // a task of the janitor works on it
	asks    int64         // how often somebody has asked for the lock
	told    int64         // the value of asks that the last renewal reported
	counted int64         // the count in the node's data, which stile's clients write
}

// path returns the path of the claim's node. The caller holds mu.
func (lc *localClaim) path() string { return lc.dir + "/" + lc.name }

// A signal is raised once.
type signal struct {
	once   sync.Once
	raised chan struct{}
}

func newSignal() *signal { return &signal{raised: make(chan struct{})} }

// isRaised reports whether the signal was raised, and so is used up.
func (b *signal) isRaised() bool {
	select {
	case <-b.raised:
		return true
	default:
		return false
	}
}

func (b *signal) raise() { b.once.Do(func() { close(b.raised) }) }

// unwatch drops the watches on other nodes. The caller holds mu.
func (lc *localClaim) unwatch() {
	for _, w := range lc.guards {
		w.Drop()
	}
	lc.guards, lc.next = nil, nil
	if lc.signal != nil {
		lc.signal.raise()
		lc.signal = nil
	}
}

// verdict returns why the claim is over, or nil, and takes the end of its lease into account. The caller holds mu.
func (d *Driver) verdict(lc *localClaim) error {
	switch {
	case lc.gone != nil:
	case lc.session.Err() != nil:
		lc.become(claimOver, driver.ErrSession)
	case wire.Now() >= lc.ends:
		lc.end()
		d.look(0)
	}
	return lc.gone
}

// unseen reports whether the claim's node must be read. Most waits are over before a watch of their own would pay: until
// then a list that contains the node is enough, and afterwards the janitor sets the watch. The caller holds mu.
func (lc *localClaim) unseen() bool {
	fresh := lc.own == nil && lc.state <= claimWaiting && wire.Now() < lc.watchAt
	return !lc.own.Stands() && !fresh
}

// follows reports whether the claim holds because the only claim ahead of it has gone, so that it need not read the queue.
// Its own node existed at that moment, since its watch still stands, and all other nodes came later. The order of the two
// checks matters: a watch that stood before the other node went proves nothing. The caller holds mu.
//
// This makes a hand-over to one waiter a round trip shorter: at the median it takes 0.72 of go-zookeeper's time, in
//
//	cd proof/bench && go run . -store zookeeper -rounds 5 -seconds 2 -only '^(handover|passing)$'
func (lc *localClaim) follows() bool {
	return lc.state == claimWaiting && lc.next.Gone() && lc.own.Stands()
}

// forget removes a local claim from the table. The caller holds mu.
func (d *Driver) forget(lc *localClaim) {
	lc.become(claimOver, driver.ErrGone)
	if d.localClaims[lc.claim.ID] == lc {
		delete(d.localClaims, lc.claim.ID)
		d.forgetWhole(lc.claim.ID)
	}
}

func (d *Driver) drop(lc *localClaim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(lc)
}

// localClaimOf returns the local claim with an id, or nil.
func (d *Driver) localClaimOf(id string) *localClaim {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.localClaims[id]
}

// nameOf returns the name of a claim's node.
func (d *Driver) nameOf(lc *localClaim) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return lc.name
}

// settle finds out the outcome of the request for a claim's node, and reports whether the node exists. Requests of one
// session are carried out in order, and a server that the session has left can do nothing more for it. So a node that is
// missing after a quorum has agreed to a later request will never come.
func (d *Driver) settle(ctx context.Context, lc *localClaim) (bool, error) {
	d.mu.Lock()
	create, name := lc.create, lc.name
	d.mu.Unlock()
	if name != "" {
		return true, nil
	}
	if create == nil {
		return false, nil
	}
	select {
	case <-create.Done():
	case <-ctx.Done():
		return false, driver.Ended(ctx, false) // of this request; the request for the node is another call's
	}
	if create.Answered() && (create.Err != nil || create.Stat.Czxid != 0) {
		return d.settleBy(lc, create), nil
	}
	list := wire.List(lc.dir, nil)
	if err := d.do(ctx, lc.session, d.proven(list)...); err != nil {
		return false, err
	}
	if list.Err != nil && !errors.Is(list.Err, wire.NoNode) {
		return false, d.refused(lc.dir, list.Err)
	}
	q, _ := d.layoutOf(lc.dir).newQueue(list.Children)
	i := named(q, d.stemOf(lc))
	if i >= 0 {
		get := wire.Get(lc.dir+"/"+q[i].name, nil)
		if err := d.do(ctx, lc.session, d.proven(get)...); err != nil {
			return false, err
		}
		if get.Err == nil {
			get.Path = lc.dir + "/" + q[i].name
			return d.settleBy(lc, get), nil
		}
		if !errors.Is(get.Err, wire.NoNode) {
			return false, d.refused(lc.dir, get.Err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	lc.create = nil
	return false, nil
}

// stemOf returns the beginning of the name of a claim's node, without its weight.
func (d *Driver) stemOf(lc *localClaim) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if lc.was != "" {
		return guid(lc.claim.ID)
	}
	return d.layoutOf(lc.dir).stem(&lc.claim)
}

// settleBy notes a call that made or found a claim's node, and reports whether the node exists.
func (d *Driver) settleBy(lc *localClaim, c *wire.Call) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case lc.create == nil: // somebody else has settled it
	case c.Err != nil && lc.was != "":
		lc.replaced(mutexLayout, nil)
	case c.Err != nil:
		lc.create = nil
	default:
		lc.replaced(d.layoutOf(lc.dir), c)
	}
	return lc.name != ""
}

// made notes the node that a call made or found. The caller holds mu.
func (lc *localClaim) made(c *wire.Call) {
	lc.create = nil
	lc.name = c.Path[strings.LastIndexByte(c.Path, '/')+1:]
	lc.czxid, lc.data = c.Stat.Czxid, c.Stat.Version
	if lc.ticket == 0 {
		lc.ticket = lc.czxid
	}
}

// errKept says that another client released a claim, and keeps it.
var errKept = fmt.Errorf("%w: it has left and is kept", driver.ErrGone)

// remove removes a claim's node, and reports whether it existed. A node that another client keeps stays until its time is
// over, with [errKept].
func (d *Driver) remove(ctx context.Context, lc *localClaim) (bool, error) {
	stands, err := d.settle(ctx, lc)
	if err != nil || !stands {
		return false, err
	}
	for {
		d.mu.Lock()
		path, version := lc.path(), lc.data
		if lc.state == claimSpent {
			version = -1
		}
		d.mu.Unlock()
		del := wire.DeleteAt(path, version)
		if err := d.do(ctx, lc.session, del); err != nil {
			return false, err
		}
		switch {
		case errors.Is(del.Err, wire.BadVersion):
		case del.Err != nil && !errors.Is(del.Err, wire.NoNode):
			return false, lc.stuck(d.undeleted(path, del.Err))
		default:
			return del.Err == nil, nil
		}
		get := wire.Get(path, nil)
		if err := d.do(ctx, lc.session, d.proven(get)...); err != nil {
			return false, err
		}
		switch {
		case errors.Is(get.Err, wire.NoNode):
			return false, nil
		case get.Err != nil:
			return false, lc.stuck(d.refused(path, get.Err))
		}
		d.mu.Lock()
		lc.data = get.Stat.Version
		kept := readData(get.Data).Kept
		if kept > 0 {
			d.keep(lc, kept)
		}
		d.mu.Unlock()
		if kept > 0 {
			return false, errKept
		}
	}
}

// stuck adds to a refused removal how long the claim's node stays.
func (lc *localClaim) stuck(err error) error {
	if !final(err) {
		return err
	}
	const says = "%w; the claim's node stands until the session ends, about %v after the client is gone at the latest"
	return fmt.Errorf(says, err, lc.session.Timeout())
}

// trusted returns the certain rest of a claim's lease: the shorter of its own rest and the session's. The caller holds mu.
func (lc *localClaim) trusted() time.Duration {
	return max(0, min(lc.ends-wire.Now(), lc.session.Trust()))
}

// prolong renews a lease, but never makes it shorter. The caller holds mu.
func (d *Driver) prolong(lc *localClaim, lease time.Duration) {
	lc.ends = max(lc.ends, wire.Now()+lease)
	d.look(lc.ends)
}
