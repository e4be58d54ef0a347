package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/zookeeper/internal/wire"
)

// A stake is a claim of this driver: what is known of its node, and its lease, which the driver keeps. It is entered in
// the driver's table before its node is asked for, and stays there until the node is gone for certain, so that no node
// is left behind. It is guarded by the driver's mu, but for what never changes.
type stake struct {
	claim   driver.Claim  // as it entered
	dir     string        // path that its node is under
	session *wire.Session // that it lives in

	create *wire.Call // asked for the node; nil once the outcome is known
	name   string     // of the node; "" while not known
	czxid  int64      // the transaction that made it
	data   int32      // version of its data

	state state         // moved by become
	gone  error         // why it is not wanted any more: ErrGone or ErrSession; nil while it stands
	ends  time.Duration // when the lease does, unless it is renewed; of a claim that is kept, the keeping

	own     *wire.Watch   // on its node, so that it is not removed unseen
	watchAt time.Duration // when own is to be set, if it does not stand
	guards  map[string]*wire.Watch
	bell    *bell         // rung when a claim goes that must go before it; nil while nobody watches
	head    *wire.Call    // read the claim at the head; nil while not known
	tryAt   time.Duration // when the node is to be removed again
	minding bool          // a task of the minder's is at it
}

func (st *stake) path() string { return st.dir + "/" + st.name }

// A bell is rung once.
type bell struct {
	once sync.Once
	rung chan struct{}
}

func newBell() *bell { return &bell{rung: make(chan struct{})} }

// silent reports whether the bell was rung, so that it is of no more use.
func (b *bell) silent() bool {
	select {
	case <-b.rung:
		return true
	default:
		return false
	}
}

func (b *bell) ring() { b.once.Do(func() { close(b.rung) }) }

// unwatch drops the watches on others. The caller holds mu.
func (st *stake) unwatch() {
	for _, w := range st.guards {
		w.Drop()
	}
	st.guards = nil
	if st.bell != nil {
		st.bell.ring()
		st.bell = nil
	}
}

// verdict returns why the claim is over, or nil. Its lease is looked at. The caller holds mu.
func (d *Driver) verdict(st *stake) error {
	switch {
	case st.gone != nil:
	case st.session.Err() != nil:
		st.become(claimOver, driver.ErrSession)
	case wire.Now() >= st.ends:
		st.end()
		d.look(0)
	}
	return st.gone
}

// forget takes a stake out of the table. The caller holds mu.
func (d *Driver) forget(st *stake) {
	st.become(claimOver, driver.ErrGone)
	if d.stakes[st.claim.ID] == st {
		delete(d.stakes, st.claim.ID)
		d.forgetWhole(st.claim.ID)
	}
}

func (d *Driver) drop(st *stake) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(st)
}

// stakeOf returns the stake of an id, or nil.
func (d *Driver) stakeOf(id string) *stake {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stakes[id]
}

// settle finds out what became of the request for a claim's node, and reports whether there is one. Requests of one
// session are done in order, and a server that the session has left can do no more for it: so what is not there after a
// quorum has agreed on something never will be.
func (d *Driver) settle(ctx context.Context, st *stake) (bool, error) {
	d.mu.Lock()
	create, name := st.create, st.name
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
		return false, driver.Ended(ctx, false) // of this request; that for the node is another's
	}
	if create.Answered() {
		d.mu.Lock()
		defer d.mu.Unlock()
		st.create = nil
		if create.Err != nil {
			return false, nil
		}
		st.made(create)
		return true, nil
	}
	list := wire.List(st.dir, nil)
	if err := d.do(ctx, st.session, d.proven(list)...); err != nil {
		return false, err
	}
	if list.Err != nil && !errors.Is(list.Err, wire.NoNode) {
		return false, d.refused(st.dir, list.Err)
	}
	l := d.layoutOf(st.dir)
	q, _ := l.newQueue(list.Children)
	i := q.named(l.stem(&st.claim))
	if i >= 0 {
		get := wire.Get(st.dir+"/"+q[i].name, nil)
		if err := d.do(ctx, st.session, d.proven(get)...); err != nil {
			return false, err
		}
		if get.Err == nil {
			get.Path = st.dir + "/" + q[i].name
			d.mu.Lock()
			defer d.mu.Unlock()
			st.create = nil
			st.made(get)
			return true, nil
		}
		if !errors.Is(get.Err, wire.NoNode) {
			return false, d.refused(st.dir, get.Err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	st.create = nil
	return false, nil
}

// made notes the node that a call made or found. The caller holds mu.
func (st *stake) made(c *wire.Call) {
	st.create = nil
	st.name = c.Path[strings.LastIndexByte(c.Path, '/')+1:]
	st.czxid, st.data = c.Stat.Czxid, c.Stat.Version
}

// errKept says that another client had a claim leave, and keeps it.
var errKept = fmt.Errorf("%w: it has left and is kept", driver.ErrGone)

// remove removes a claim's node. It reports whether it was there. One that another client keeps stays until its time is
// over, with [errKept].
func (d *Driver) remove(ctx context.Context, st *stake) (bool, error) {
	stands, err := d.settle(ctx, st)
	if err != nil || !stands {
		return false, err
	}
	for {
		d.mu.Lock()
		version := st.data
		if st.state == claimSpent {
			version = -1
		}
		d.mu.Unlock()
		del := wire.DeleteAt(st.path(), version)
		if err := d.do(ctx, st.session, del); err != nil {
			return false, err
		}
		switch {
		case errors.Is(del.Err, wire.BadVersion):
		case del.Err != nil && !errors.Is(del.Err, wire.NoNode):
			return false, d.refused(st.path(), del.Err)
		default:
			return del.Err == nil, nil
		}
		get := wire.Get(st.path(), nil)
		if err := d.do(ctx, st.session, d.proven(get)...); err != nil {
			return false, err
		}
		switch {
		case errors.Is(get.Err, wire.NoNode):
			return false, nil
		case get.Err != nil:
			return false, d.refused(st.path(), get.Err)
		}
		d.mu.Lock()
		st.data = get.Stat.Version
		kept := readData(get.Data).Kept
		if kept > 0 {
			d.keep(st, kept)
		}
		d.mu.Unlock()
		if kept > 0 {
			return false, errKept
		}
	}
}

// trusted returns the lease that a claim has for certain: what is left of its own and of the session's. The caller holds
// mu.
func (st *stake) trusted() time.Duration {
	return max(0, min(st.ends-wire.Now(), st.session.Trust()))
}

// prolong starts a lease anew. It is never made shorter. The caller holds mu.
func (d *Driver) prolong(st *stake, lease time.Duration) {
	st.ends = max(st.ends, wire.Now()+lease)
	d.look(st.ends)
}
