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
	zk     *ensemble
	line   *keeper
	recipe recipe
	layout layout

	promised promise.Promise
}

// A recipe is how the nodes of a name make a lock of it. The layout chooses it when the driver is opened.
type recipe interface {
	enter(ctx context.Context, dir string, c *driver.Claim) (driver.Place, error)
	await(ctx context.Context, id string) error
	renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal
	leave(ctx context.Context, dir string, l *driver.Release) error
	listings(ctx context.Context, s *wire.Session, names []string) ([]driver.Listing, error)
	breaks(ctx context.Context, s *wire.Session, dir string, b *driver.BreakRequest) (driver.ClaimInfo, error)

	// overlook has a signal raised when the queue of a name changes, and returns the calls whose watches do that.
	overlook(ctx context.Context, dir string, b *signal) ([]*wire.Call, error)

	// alert names the function that is told the ids of claims in danger.
	alert(endangered func(ids ...string))
}

// An ensemble is the servers as this client reaches them, by one session after another. It knows nothing of claims.
type ensemble struct {
	conf   wire.Config // of each session
	acl    wire.ACL
	user   string // for messages
	chroot string // "" or an absolute path
	prefix string // the beginning of an absolute path to a lock, before the name

	life *work.Life
	ctx  context.Context // of the life

	mu      sync.Mutex // guards what follows; no other lock is taken under it, but for those of the session
	session *wire.Session
	odd     []string // paths of nodes that are no claims, in a place for claims
}

// A keeper keeps single locks, each on a path of its own, and knows of no others: the claims under a path are one queue. It is
// the only one that asks for the nodes of this client's claims, or has them removed.
type keeper struct {
	zk       *ensemble
	janitor  *janitor
	layoutOf func(dir string) layout // how the children of a path are named
	forgets  func(id string)         // is told of each claim that leaves the table, by one who holds mu; nil means nobody

	mu          sync.Mutex             // guards what follows, what is in the local claims, and the janitor
	localClaims map[string]*localClaim // by claim id
}

// A janitor sees to what no call sees to: it ends leases, removes nodes, watches them, and looks for strays. Its fields are
// guarded by the keeper's mu.
type janitor struct {
	zk   *ensemble
	line *keeper
	kick chan struct{} // holds one element; wakes the janitor

	told      func(ids ...string)
	alerts    map[string]bool // ids to report
	next      time.Duration   // when the janitor runs by itself
	compareAt time.Duration   // when it looks for strays next
	blind     bool            // the servers cannot list the nodes of a session
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
	zk := newEnsemble()
	d := &Driver{zk: zk, line: newKeeper(zk)}
	d.promised.Life, d.promised.Ask = zk.life, d.promises
	d.choose(mutexLayout)
	return d
}

// newEnsemble returns an ensemble that is not configured yet.
func newEnsemble() *ensemble {
	e := &ensemble{life: work.Begin()}
	e.ctx = e.life.Context()
	return e
}

// newKeeper returns a keeper without claims.
func newKeeper(zk *ensemble) *keeper {
	k := &keeper{zk: zk, localClaims: map[string]*localClaim{}}
	k.janitor = &janitor{
		zk: zk, line: k, alerts: map[string]bool{}, kick: make(chan struct{}, 1), next: never, compareAt: never,
	}
	zk.conf.Busy, zk.conf.Hurt = k.busy, k.janitor.hurt
	return k
}

// choose chooses the recipe of a layout.
func (d *Driver) choose(l layout) {
	d.layout = l
	if l == semaphoreLayout {
		d.recipe = newSemaphore(d.zk, d.line)
	} else {
		d.recipe = newSingle(d.zk, d.line, l)
	}
}

// path returns the parent path of a name's claims.
func (e *ensemble) path(name string) (string, error) {
	path := e.prefix + driver.EncodeName(name)
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

// live returns the session, or a new one if the last is over.
func (e *ensemble) live() (*wire.Session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		return nil, driver.ErrClosed
	}
	if e.session == nil || e.session.Err() != nil {
		e.open()
	}
	return e.session, nil
}

// current is the session that was begun last, or nil.
func (e *ensemble) current() *wire.Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.session
}

// open begins a session. The caller holds mu.
func (e *ensemble) open() {
	conf := e.conf
	if old := e.session; old != nil {
		conf.Seen = old.Seen() // a replaced or restored ensemble would give the same tickets again
		e.life.Go(func() { old.Close(false) })
	}
	e.session = wire.New(&conf)
}

// busy reports whether there are claims.
func (k *keeper) busy() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.localClaims) > 0
}

// do sends requests on a session and explains their errors.
func (e *ensemble) do(ctx context.Context, s *wire.Session, calls ...*wire.Call) error {
	err := s.Do(ctx, calls...)
	if err == nil {
		driver.Heard(ctx, len(calls))
	}
	return e.explain(ctx, err)
}

// proven returns the calls with another one before them that a quorum must agree to, so that they show everything that was
// done earlier. A server answers reads by itself. So a server that was just elected, or one that was deposed and does not
// know it, can show the past: a node that it does not show is not certainly gone. Sync does not help, since a deposed
// leader answers it alone.
func (e *ensemble) proven(calls ...*wire.Call) []*wire.Call {
	return append([]*wire.Call{wire.Agree(e.conf.Path)}, calls...)
}

// errUnproven says that a server which may be behind does not show a claim's node.
var errUnproven = errors.New("the claim's node was not seen")

// Traits returns the ensemble's promises, and notes of nodes that are no claims in places for claims. The ensemble is asked
// again now and then, since its servers may change while the session lives.
func (d *Driver) Traits() driver.Traits {
	t := d.promised.Traits()
	if d.line.isBlind() {
		t.Warn("ZooKeeper 3.6 or later", blindNote)
	}
	if odd := d.zk.strangers(); len(odd) > 0 {
		t.Note("Nodes that are no claims stand where claims do, and are ignored: %s.", strings.Join(odd, ", "))
	}
	return t
}

// strangers are the paths that strange noted.
func (e *ensemble) strangers() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.odd)
}

const maxOdd = 8 // more are not listed

// strange notes names that are no claims.
func (e *ensemble) strange(dir string, names []string) {
	if len(names) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range names {
		path := shown(dir + "/" + name)
		if len(e.odd) < maxOdd && !slices.Contains(e.odd, path) {
			e.odd = append(e.odd, path)
		}
	}
}

// Close ends every call. If claims are left, they stay until the session's time is over; otherwise the session is closed.
func (d *Driver) Close() error {
	standing := d.line.end()
	d.zk.end(!standing)
	d.zk.life.Wait()
	return nil
}

// begins begins to see to the claims; end ends that.
func (k *keeper) begins() { k.zk.life.Go(k.janitor.tend) }

// remembered returns how many claims there are, and how many of them are to be reported.
func (k *keeper) remembered() (claims, alerts int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.localClaims), len(k.janitor.alerts)
}

// end ends the life, after which no claim begins, and reports whether some stand.
func (k *keeper) end() (standing bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.zk.life.End()
	for _, lc := range k.localClaims {
		standing = standing || lc.lease.stands() || lc.lease.state == claimKept
	}
	return standing
}

// end closes the session, after the life has ended; unless it is ended properly, its nodes stay until its time is over.
func (e *ensemble) end(properly bool) {
	e.mu.Lock()
	s := e.session
	e.session = nil
	e.mu.Unlock()
	if s != nil {
		s.Close(properly)
	}
}
