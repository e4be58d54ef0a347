// Package zookeeper keeps locks in ZooKeeper, 3.5.3 or newer.
//
// A name is a node, and each claim is an ephemeral sequential node under the name. Curator's mutex and go-zookeeper's lock
// name their nodes in the same way, so they and stile exclude each other on one path. Other layouts are for Curator's
// read-write lock, leader latch and semaphore. A claim holds by the order of the numbers that the server appends. Its ticket
// is the transaction that created it. A waiting claim watches only the nodes that must go before it. In the layout of the
// semaphore a claim has several nodes; type parted lists them. Importing the package registers the schemes zk and zks.
//
// All claims of a driver live in one session. The time for which the ensemble certainly keeps the session bounds every
// lease, whatever lease was asked for. After a crash the ensemble frees the claims when the session's time is over. The
// driver itself keeps shorter leases: it removes the nodes of claims that nobody renews.
//
// A claim is in one state, which one function moves, become:
//
//	         its place    ┌─────────┐
//	        ┌────────────►│ waiting │──┐
//	   ┌────┴───┐         └────┬────┘  │
//	──►│ asking │              │       │  its lease runs out, or it
//	   └────┬───┘         ┌────▼────┐  │  was not let in   ┌────────┐
//	        └────────────►│ holding │──┼──────────────────►│ ending │──┐
//	                      └─────────┘  │                   └────────┘  │ its node
//	                                   │  Leave            ┌─────────┐ │ is removed
//	                                   ├──────────────────►│ leaving │─┤
//	                                   │                   └─────────┘ │
//	                                   │  Leave with Keep, here or by  │
//	                                   │  another client, which may    │
//	                                   │  find it ending or leaving    │
//	                                   │  ┌──────┐ time over ┌───────┐ │
//	                                   ├─►│ kept │──────────►│ spent │─┤
//	                                   │  └──────┘           └───────┘ │
//	                                   │ its node is gone by a quorum's│
//	                                   │ word, or its session is over  ▼
//	                                   └───────────────────────────►  over
//
// If no claim here knows a node of the session, the driver takes the node up as a claim that is ending; stray.go says when.
//
// From every state it goes to over with its session. Whether the request for its node was answered is another question,
// which settle asks: until then the node may come, also of a claim that must go.
//
// With acl=creator a user needs all permissions on the node that the prefix stands under, or, if that exists with the
// locks' parent under it, on that parent.
package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/promise"
	"github.com/stilelock/stile/internal/work"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// DefaultPrefix is the beginning of the paths of locks, below the chroot.
const DefaultPrefix = "stile/"

// A Driver keeps locks in ZooKeeper. Its methods may be called at once.
type Driver struct {
	conf   wire.Config // of each session
	layout layout
	acl    wire.ACL
	user   string // for messages
	chroot string // "" or an absolute path
	prefix string // the beginning of an absolute path to a lock, before the name

	life     *work.Life
	ctx      context.Context // of the life
	promised promise.Promise
	kick     chan struct{} // holds one element; wakes the janitor

	mu          sync.Mutex // guards what follows, and what is in the local claims
	session     *wire.Session
	localClaims map[string]*localClaim // by claim id
	parted      map[string]*parted     // by claim id; only in the layout of the semaphore
	told        func(ids ...string)
	alerts      map[string]bool // ids to report
	odd         []string        // paths of nodes that are no claims, in a place for claims
	next        time.Duration   // when the janitor runs by itself
	compareAt   time.Duration   // when it looks for strays next
	blind       bool            // the servers cannot list the nodes of a session
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
	d := &Driver{
		localClaims: map[string]*localClaim{}, parted: map[string]*parted{}, alerts: map[string]bool{},
		kick: make(chan struct{}, 1), next: never, compareAt: never,
	}
	d.life = work.Begin()
	d.ctx = d.life.Context()
	d.promised.Life, d.promised.Ask = d.life, d.promises
	return d
}

// path returns the parent path of a name's claims.
func (d *Driver) path(name string) (string, error) {
	path := d.prefix + driver.EncodeName(name)
	if path == "/zookeeper" {
		const says = "the name zookeeper is reserved by zookeeper where there is neither chroot nor prefix"
		return "", driver.Refused(errors.New(says))
	}
	return path, nil
}

// shape refuses the kinds of claims that the layout does not have.
func (d *Driver) shape(c *driver.Claim) error {
	reader := c.Weight == 1 && c.Capacity == driver.All
	if c.Delay > 0 || d.layout == rwLayout && c.Weight != driver.All && !reader {
		return driver.ErrUnsupported
	}
	if d.layout != semaphoreLayout || c.Weight == driver.All {
		return nil
	}
	if c.Weight > maxPermits {
		const says = "in this layout each permit is a node, of which a claim may have %d, not %d"
		return driver.Refused(fmt.Errorf(says, maxPermits, c.Weight))
	}
	return nil
}

// layoutOf returns the layout of a path's children.
func (d *Driver) layoutOf(dir string) layout {
	switch {
	case d.layout != semaphoreLayout:
		return d.layout
	case strings.HasSuffix(dir, locksDir):
		return locksLayout
	default:
		return leasesLayout
	}
}

// live returns the session, or a new one if the last is over.
func (d *Driver) live() (*wire.Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return nil, driver.ErrClosed
	}
	if d.session == nil || d.session.Err() != nil {
		d.open()
	}
	return d.session, nil
}

// open begins a session. The caller holds mu.
func (d *Driver) open() {
	conf := d.conf
	conf.Busy, conf.Hurt = d.busy, d.hurt
	if old := d.session; old != nil {
		conf.Seen = old.Seen() // a replaced or restored ensemble would give the same tickets again
		d.life.Go(func() { old.Close(false) })
	}
	d.session = wire.New(&conf)
}

// busy reports whether there are claims.
func (d *Driver) busy() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.localClaims) > 0
}

// do sends requests on a session and explains their errors.
func (d *Driver) do(ctx context.Context, s *wire.Session, calls ...*wire.Call) error {
	err := s.Do(ctx, calls...)
	if err == nil {
		driver.Heard(ctx, len(calls))
	}
	return d.explain(ctx, err)
}

// proven returns the calls with another one before them that a quorum must agree to, so that they show everything that was
// done earlier. A server answers reads by itself. So a server that was just elected, or one that was deposed and does not
// know it, can show the past: a node that it does not show is not certainly gone. Sync does not help, since a deposed
// leader answers it alone.
func (d *Driver) proven(calls ...*wire.Call) []*wire.Call {
	return append([]*wire.Call{wire.Agree(d.conf.Path)}, calls...)
}

// errUnproven says that a server which may be behind does not show a claim's node.
var errUnproven = errors.New("the claim's node was not seen")

// Traits returns the ensemble's promises, and notes of nodes that are no claims in places for claims. The ensemble is asked
// again now and then, since its servers may change while the session lives.
func (d *Driver) Traits() driver.Traits {
	t := d.promised.Traits()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.blind {
		t.Warn("ZooKeeper 3.6 or later", blindNote)
	}
	if len(d.odd) > 0 {
		odd := strings.Join(d.odd, ", ")
		t.Note("Nodes that are no claims stand where claims do, and are ignored: %s.", odd)
	}
	return t
}

const maxOdd = 8 // more are not listed

// strange notes names that are no claims.
func (d *Driver) strange(dir string, names []string) {
	if len(names) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		path := shown(dir + "/" + name)
		if len(d.odd) < maxOdd && !slices.Contains(d.odd, path) {
			d.odd = append(d.odd, path)
		}
	}
}

// Close ends every call. If claims are left, they stay until the session's time is over; otherwise the session is closed.
func (d *Driver) Close() error {
	d.mu.Lock()
	s, standing := d.session, false
	d.session = nil
	d.life.End()
	for _, lc := range d.localClaims {
		standing = standing || lc.lease.stands() || lc.lease.state == claimKept
	}
	d.mu.Unlock()
	if s != nil {
		s.Close(!standing)
	}
	d.life.Wait()
	return nil
}
