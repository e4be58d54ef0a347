package etcd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/known"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	mostIdle  = 256              // limit of the leases in the pool
	idleAfter = 10 * time.Second // how long an unused lease stays in the pool before it is revoked
	revokeFor = time.Second      // bounds one call of revoke
	forgetOf  = time.Hour        // how long a revocation without an answer is remembered
)

// A lease is a lease of etcd.
type lease struct {
	id   int64
	term uint64        // the leader's, when the lease was granted or earlier: see [upkeep.confirm]
	idle time.Duration // when it came into the pool, by boottime

	mu    sync.Mutex    // guards the fields below
	state leaseState    // changed by become only
	open  int           // requests about it whose outcome is unknown, now or for ever
	ttl   time.Duration // in whole seconds; 0 means unknown
	ends  time.Duration // its earliest end, by boottime
}

// A leaseState says whom a lease serves.
type leaseState int

const (
	leaseServing leaseState = iota // one claim, or the call that got it
	leaseIdle                      // the next claim: it is in the pool
	leaseForeign                   // another driver's claim; that driver granted it
	leaseOver                      // nobody: it was revoked, or has ended
)

var leaseMoves = map[leaseState][]leaseState{
	leaseServing: {leaseIdle, leaseOver},
	leaseIdle:    {leaseServing, leaseOver},
}

// become moves the lease to a state, and reports whether it did. Keys have leases in their names, so to etcd two claims of
// one name and one lease are one key, and a late request about the first claim would change the second. So a lease does not
// pass from one claim to the next while the outcome of a request about it is unknown.
func (l *lease) become(next leaseState) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	passes := next == leaseIdle || next == leaseServing
	if !slices.Contains(leaseMoves[l.state], next) || passes && l.open > 0 {
		return false
	}
	l.state = next
	return true
}

// asked changes the number of requests about the lease whose outcome is unknown: by 1 for a new one, by -1 once the outcome
// is known.
func (l *lease) asked(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open += n
}

// doubtful reports whether the outcome of some request about the lease is unknown.
func (l *lease) doubtful() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open > 0
}

// foreignLease returns a lease that another driver granted, in the term that the claim's key names; 0 means that it names
// none.
func foreignLease(id int64, term uint64) *lease {
	return &lease{id: id, term: term, state: leaseForeign}
}

// seconds returns the TTL of a lease for a time, rounded up: etcd's TTLs are whole seconds.
func (p *pool) seconds(t time.Duration) time.Duration {
	return max(p.minTTL, (t + time.Second - 1).Truncate(time.Second))
}

// time returns the length of the lease, and the least that is left of it at a moment.
func (l *lease) time(now time.Duration) (ttl, left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ttl, l.ends - now
}

// stale reports whether more than a third of the lease is over, so that it should be kept alive before use.
func (l *lease) stale(now time.Duration) bool {
	ttl, left := l.time(now)
	return left < ttl*2/3
}

// spent reports whether less than a quarter of the lease is left, so that it may end before a keep-alive reaches etcd.
func (l *lease) spent(now time.Duration) bool {
	ttl, left := l.time(now)
	return left < ttl/4
}

// A pool has the leases of claims that left cleanly, for the next claims. No key is attached to them, and no request that
// could attach one is under way. The pool keeps none of them alive.
type pool struct {
	wire   *wire
	minTTL time.Duration // the shortest lease that the servers grant

	mu sync.Mutex // guards the fields below

	idle  map[time.Duration][]*lease // by TTL; the latest comes last, and is taken first
	count int                        // number of leases in idle
	over  map[int64]time.Duration    // leases that a revocation may still end, by id: until when
	limit known.Limit                // of over
	due   bool                       // the timer runs
	timer *time.Timer
}

func newPool(w *wire) *pool {
	p := &pool{wire: w, idle: map[time.Duration][]*lease{}, over: map[int64]time.Duration{}}
	p.timer = time.AfterFunc(time.Hour, p.sweep)
	p.timer.Stop()
	return p
}

// take returns a lease of whole seconds for one claim, from the pool or from etcd.
func (p *pool) take(ctx context.Context, ttl time.Duration) (*lease, error) {
	now, term := boottime.Now(), p.wire.identity.latest()
	p.mu.Lock()
	for list := p.idle[ttl]; len(list) > 0; list = p.idle[ttl] {
		l := list[len(list)-1]
		p.idle[ttl] = list[:len(list)-1]
		p.count--
		if l.term == term && !l.spent(now) && l.become(leaseServing) {
			p.mu.Unlock()
			return l, nil
		}
	}
	p.mu.Unlock()
	return p.grant(ctx, ttl)
}

// grant returns a new lease.
func (p *pool) grant(ctx context.Context, ttl time.Duration) (*lease, error) {
	l := &lease{term: p.wire.identity.latest()}
	sent := boottime.Now()
	r, err := p.wire.client.Grant(ctx, int64(ttl/time.Second))
	if errors.Is(err, rpctypes.ErrNoSpace) {
		return nil, driver.Refused(errFull) // if etcd granted the lease all the same, no key is attached to it
	}
	if err != nil {
		return nil, err
	}
	l.id = int64(r.ID)
	l.ttl = time.Duration(r.TTL) * time.Second
	l.ends = sent + l.ttl
	return l, nil
}

// put takes a lease back from a claim that is not in etcd any more. The lease serves the next claim. If it is of an earlier
// term, or etcd may still apply a request about it, put revokes it, so that the request finds no lease.
func (p *pool) put(l *lease) {
	if !p.spare(l) {
		p.discard(l)
	}
}

// spare puts an unused lease into the pool, and reports whether it did. If a request of unknown outcome may have attached a
// key to the lease, spare leaves it alone: the claim may hold by it after its next Enter, and to revoke it would end the
// claim, and its lock-delay, under its holder. If no claim holds by it, the lease runs out.
func (p *pool) spare(l *lease) bool {
	if l.term != p.wire.identity.latest() || !l.become(leaseIdle) {
		return false
	}
	l.idle = boottime.Now()
	ttl, _ := l.time(l.idle)
	p.mu.Lock()
	full := p.count >= mostIdle
	if !full {
		p.idle[ttl] = append(p.idle[ttl], l)
		p.count++
		p.sweepLaterLocked()
	}
	p.mu.Unlock()
	if full {
		p.discard(l)
	}
	return true
}

// sweepLaterLocked starts the timer of the sweep, unless it runs: a lock and unlock should not set a timer each time.
func (p *pool) sweepLaterLocked() {
	if !p.due {
		p.due = true
		p.timer.Reset(idleAfter)
	}
}

// sweep revokes the leases that no claim has taken for idleAfter.
func (p *pool) sweep() {
	now := boottime.Now()
	var old []*lease
	p.mu.Lock()
	for ttl, list := range p.idle {
		i := 0
		for i < len(list) && now-list[i].idle >= idleAfter {
			i++
		}
		old = append(old, list[:i]...)
		if p.idle[ttl] = append([]*lease(nil), list[i:]...); i == len(list) {
			delete(p.idle, ttl)
		}
	}
	p.count -= len(old)
	if p.due = false; len(p.idle) > 0 {
		p.sweepLaterLocked()
	}
	p.mu.Unlock()
	p.discard(old...)
}

// discard revokes leases that this driver granted, in the background. Requests about them that arrive later fail.
func (p *pool) discard(leases ...*lease) {
	leases = slices.DeleteFunc(slices.Clone(leases), func(l *lease) bool { return !l.become(leaseOver) })
	if len(leases) > 0 {
		p.revokes(leases) // before a call can find a key on one
		p.wire.life.Go(func() { p.revoke(p.wire.ctx, leases) })
	}
}

// revoke makes etcd end leases, which deletes their keys.
func (p *pool) revoke(ctx context.Context, leases []*lease) {
	ctx, cancel := context.WithTimeout(ctx, revokeFor)
	defer cancel()
	p.revokes(leases)
	slots := make(chan struct{}, 16)
	var all sync.WaitGroup
	for _, l := range leases {
		slots <- struct{}{}
		all.Go(func() {
			_, err := p.wire.client.Revoke(ctx, clientv3.LeaseID(l.id)) // without an answer, the lease runs out
			if err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound) {
				p.revoked(l.id)
			}
			<-slots
		})
	}
	all.Wait()
}

// revokes notes leases whose revocation begins. Until etcd has revoked them, a put whose answer was lost may attach a key to
// one.
func (p *pool) revokes(leases []*lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := boottime.Now()
	if p.limit.Reached(len(p.over)) {
		maps.DeleteFunc(p.over, func(_ int64, until time.Duration) bool { return until < now })
		p.limit.Swept(len(p.over))
	}
	for _, l := range leases {
		p.over[l.id] = now + forgetOf
	}
}

// revoked notes that etcd has revoked a lease.
func (p *pool) revoked(id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.over, id)
}

// term returns the term of a lease that is found in a key: the term in the key's value. If this driver has begun to revoke
// the lease, and etcd has not confirmed it, the term is 0, and the key needs a new lease.
func (p *pool) term(id int64, inKey uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, over := p.over[id]; over {
		return 0
	}
	return inKey
}

func (p *pool) close() {
	p.timer.Stop()
	p.mu.Lock()
	var all []*lease
	for _, list := range p.idle {
		all = append(all, list...)
	}
	p.idle, p.count = map[time.Duration][]*lease{}, mostIdle
	p.mu.Unlock()
	if len(all) > 0 {
		p.revoke(context.WithoutCancel(p.wire.ctx), all)
	}
}
