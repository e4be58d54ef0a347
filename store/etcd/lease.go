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
	mostIdle  = 256              // leases kept for claims to come
	idleAfter = 10 * time.Second // when one that no claim came for is given back
	revokeFor = time.Second      // bounds the giving back
	forgetOf  = time.Hour        // when a revocation without an answer is forgotten
)

// A lease is one of etcd's.
type lease struct {
	id   int64
	term uint64        // of a leader, when the lease was granted or before that: see [upkeep.confirm]
	idle time.Duration // since when it is in the pool, by boottime

	mu    sync.Mutex    // guards what follows
	state leaseState    // moved by become
	open  int           // requests about it whose outcome is not known: not yet, or never will be
	ttl   time.Duration // in whole seconds; 0 means not known
	ends  time.Duration // not before then does it end, by boottime, as far as is known
}

// A leaseState says whom a lease serves.
type leaseState int

const (
	leaseServing leaseState = iota // one claim, or a request to come
	leaseIdle                      // whoever comes next: it is in the pool
	leaseForeign                   // another driver's claim: that one has granted it
	leaseOver                      // nobody: it was revoked
)

var leaseMoves = map[leaseState][]leaseState{
	leaseServing: {leaseIdle, leaseOver},
	leaseIdle:    {leaseServing, leaseOver},
}

// become moves the lease, and reports whether it moved. Keys are named for leases, so two claims of one name and one lease
// are one key to etcd, and a request about the first that is applied late changes the second. So a lease does not pass from
// one claim to the next while the outcome of a request about it is open.
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

// asked counts a request about the lease (1), or one whose outcome is known now (-1).
func (l *lease) asked(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open += n
}

// doubtful reports whether the outcome of a request about the lease is not known.
func (l *lease) doubtful() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open > 0
}

// foreignLease is one that another driver granted, in a term that it has noted with the claim; 0 means that it has not.
func foreignLease(id int64, term uint64) *lease {
	return &lease{id: id, term: term, state: leaseForeign}
}

// seconds is the ttl of the lease for a time: etcd's are whole seconds.
func (p *pool) seconds(t time.Duration) time.Duration {
	return max(p.minTTL, (t + time.Second - 1).Truncate(time.Second))
}

// time returns the length of the lease, and how much is left of it at least.
func (l *lease) time(now time.Duration) (ttl, left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ttl, l.ends - now
}

// stale reports that so much of the lease is gone that it had better be kept alive.
func (l *lease) stale(now time.Duration) bool {
	ttl, left := l.time(now)
	return left < ttl*2/3
}

// spent reports that the lease may be gone before it can be kept alive.
func (l *lease) spent(now time.Duration) bool {
	ttl, left := l.time(now)
	return left < ttl/4
}

// A pool has the leases that claims left cleanly, for the next ones: nothing hangs on them and nothing is on its way
// that could. None of them is kept alive.
type pool struct {
	wire   *wire
	minTTL time.Duration // the shortest lease that the servers give

	mu sync.Mutex // guards what follows
	// The latest come last, and are taken first.
	idle  map[time.Duration][]*lease // by ttl
	count int
	over  map[int64]time.Duration // until when a revocation may still end a lease, by id
	limit known.Limit             // of these
	due   bool                    // the timer runs
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
		return nil, driver.Refused(errFull) // if etcd has granted it all the same, no key hangs on it
	}
	if err != nil {
		return nil, err
	}
	l.id = int64(r.ID)
	l.ttl = time.Duration(r.TTL) * time.Second
	l.ends = sent + l.ttl
	return l, nil
}

// put takes a lease back from a claim that is not in etcd any more. It serves the next one, unless it is of an earlier term, or
// a request about it may be applied yet: then it is revoked, and such a request finds nothing to act on.
func (p *pool) put(l *lease) {
	if !p.spare(l) {
		p.discard(l)
	}
}

// spare takes a lease back that no key was hung on, and reports whether it could. If it is not known whether one was,
// nothing is done to it: the claim may hold by it when it enters again, and to revoke it would end the claim, and its
// lock-delay, under its holder. If nobody holds by it, it runs out.
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

// sweepLaterLocked has the pool swept, unless that is due already: a timer is not set for each lock.
func (p *pool) sweepLaterLocked() {
	if !p.due {
		p.due = true
		p.timer.Reset(idleAfter)
	}
}

// sweep gives leases back that nobody came for.
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

// discard revokes leases that this driver granted, in the background. What may still be on its way for them finds them gone.
func (p *pool) discard(leases ...*lease) {
	leases = slices.DeleteFunc(slices.Clone(leases), func(l *lease) bool { return !l.become(leaseOver) })
	if len(leases) > 0 {
		p.revokes(leases) // before a call finds a key on one
		p.wire.life.Go(func() { p.revoke(p.wire.ctx, leases) })
	}
}

// revoke asks etcd to end leases, and what hangs on them.
func (p *pool) revoke(ctx context.Context, leases []*lease) {
	ctx, cancel := context.WithTimeout(ctx, revokeFor)
	defer cancel()
	p.revokes(leases)
	slots := make(chan struct{}, 16)
	var all sync.WaitGroup
	for _, l := range leases {
		slots <- struct{}{}
		all.Go(func() {
			_, err := p.wire.client.Revoke(ctx, clientv3.LeaseID(l.id)) // it ends by itself if etcd does not answer
			if err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound) {
				p.revoked(l.id)
			}
			<-slots
		})
	}
	all.Wait()
}

// revokes notes that leases are revoked. Until etcd has done so, a put whose answer was lost may hang a key on one.
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

// revoked notes that a lease is no more.
func (p *pool) revoked(id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.over, id)
}

// term returns the term of a lease of another driver, or of an earlier claim of this one, by what the key that hangs on it tells: 0
// if this driver has revoked the lease, and etcd has not done so yet. Then the key needs a new lease.
func (p *pool) term(id int64, told uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, over := p.over[id]; over {
		return 0
	}
	return told
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
