package claims

import (
	"context"
	"crypto/rand"
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/agenda"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
	"github.com/stilelock/stile/internal/table"
)

// A Keeper keeps the claims of one process in one store.
type Keeper struct {
	d      driver.Driver
	traits driver.Traits
	conf   Config
	clock  clock
	id     string
	seed   maphash.Seed

	shards [shards]shard
	time   timekeeper
	work   workers
	events *events // nil without an observer
	yields yields

	channels sync.Pool // of chan struct{} with room for one; per keeper, since a channel must not leave a test's bubble

	base    context.Context // ends when the keeper is closed and no claim is about to leave
	stop    context.CancelFunc
	closing sync.Once
	clears  sync.WaitGroup // after Close: names whose claims are about to leave, and requests without the engines
	failed  error          // of the driver's Close
}

// A Config has a keeper's settings. Only Require, Observe and Slept may be left out.
type Config struct {
	Turn     time.Duration        // how long goroutines hand a claim on among themselves
	Margin   time.Duration        // how long before its end a lease loses trust; 0 means a tenth of it, at most a second
	Drift    float64              // the largest relative difference of two clocks' rates
	Patience time.Duration        // how long to ask a store that does not answer
	Require  []driver.Trait       // the traits that the store must have at each grant and renewal
	Observe  func(Event)          // gets the events, from one goroutine
	Slept    func() time.Duration // how long the machine has slept since it booted; nil means to ask the kernel
}

const shards = 32

// A shard has some of the names, and the mutex that guards them.
type shard struct {
	k      *Keeper
	next   atomic.Int64 // when the first item on the agenda is due
	coming atomic.Int32 // the readers that wait for mu to want a name

	mu     sync.Mutex // guards the fields below, and the names, their engines, claims and holds; never held across I/O
	closed bool
	names  table.Table[name, *name]
	agenda agenda.Agenda[name, *name]
	spare  []*name // idle, for reuse

	apart    map[*call]bool // requests without the engines; Close cuts them and waits for them
	clearing map[*name]bool // Close waits until their claims have left the store; nil before Close

	common engine.Common // of the engines

	_ [64]byte // puts the next shard on another cache line, so that writes here do not slow it down
}

// Many readers of one name take mu again and again, each for a moment. A Mutex puts them to sleep soon, and then each unlock
// has to wake one, which takes longer than the work under the mutex. So a reader retries a few times, and yields between,
// before it sleeps. That makes BenchmarkReaders half again as fast.
const (
	readerTries = 16
	readerSteps = 8
)

// lock takes mu for a caller that wants or has a claim of these terms.
func (s *shard) lock(t *protocol.Terms) {
	if t.Shared() {
		for range readerSteps {
			for range readerTries {
				if s.mu.TryLock() {
					return
				}
			}
			runtime.Gosched()
		}
	}
	s.mu.Lock()
}

// come is lock for a caller that wants a claim of these terms. Others can see that a reader is coming.
func (s *shard) come(t *protocol.Terms) {
	if !t.Shared() {
		s.mu.Lock()
		return
	}
	s.coming.Add(1)
	s.lock(t)
	s.coming.Add(-1)
}

// maxSpare is the number of idle names that a shard keeps for reuse.
const maxSpare = 16

// maxStrays is the number of unwanted claims of a line that may be about to leave before the line asks for another. A caller
// that comes then waits for one of them, at most for Patience.
const maxStrays = 64

// New returns a keeper of claims in a store. The keeper's Close closes the store.
func New(d driver.Driver, conf Config) *Keeper {
	k := &Keeper{d: d, traits: d.Traits(), conf: conf, id: rand.Text(), seed: maphash.MakeSeed()}
	k.clock.init(conf.Slept)
	decides := &protocol.Config{
		Turn: conf.Turn, Patience: conf.Patience, Strays: maxStrays, Ordered: k.traits.Ordered, Observed: conf.Observe != nil,
		Grain: time.Millisecond, Trusted: k.trusted, Jitter: jitter,
	}
	for i := range k.shards {
		k.shards[i].k, k.shards[i].common = k, engine.NewCommon(decides)
		k.shards[i].apart = map[*call]bool{}
		k.shards[i].next.Store(int64(engine.Never))
	}
	k.base, k.stop = context.WithCancel(context.Background())
	k.time.init()
	k.work.init()
	if conf.Observe != nil {
		k.events = newEvents(conf.Observe)
	}
	if a, ok := d.(driver.Alerter); ok {
		a.Alert(k.endangered)
	}
	k.work.group.Go(k.keepTime)
	return k
}

// A place is where the keeper keeps a name.
type place struct {
	shard *shard
	hash  uint64 // of the name, in the shard
}

// place returns the place of a name.
func (k *Keeper) place(text string) place {
	hash := maphash.String(k.seed, text)
	return place{&k.shards[hash%shards], hash / shards}
}

// Close ends every wait and every held lease. It takes unused and waiting claims out of the store, but not claims with
// unreleased holds, and closes the store. It lasts for Patience at most, plus the driver's own Close. A second Close is
// harmless.
func (k *Keeper) Close() error {
	k.closing.Do(func() {
		end := time.Now().Add(k.conf.Patience)
		for i := range k.shards {
			k.closeShard(&k.shards[i])
		}
		k.clears.Wait()
		k.stop()
		k.work.close()
		k.failed = k.d.Close()
		if k.events != nil {
			k.events.close(time.Until(end))
		}
	})
	return k.failed
}

func (k *Keeper) closeShard(s *shard) {
	var t todo
	s.mu.Lock()
	s.closed, s.clearing = true, map[*name]bool{}
	for _, n := range s.names.All() {
		now := n.enterEvent(k.clock.now())
		n.engine.Close(now)
		if n.engine.Clearing() {
			s.clearing[n] = true
			k.clears.Add(1)
		}
		n.finishLocked(now, &t)
	}
	for c := range s.apart {
		c.finish()
	}
	s.mu.Unlock()
	t.do()
}

// Names returns the number of names in use.
func (k *Keeper) Names() int {
	n := 0
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		n += s.names.Len()
		s.mu.Unlock()
	}
	return n
}

// trusted returns the end of trust in a lease that the store confirmed. It counts from before the request was sent, since
// the store began the lease after that, and subtracts the margin and the drift of two clocks (Gray and Cheriton, SOSP 1989).
func (k *Keeper) trusted(sent, ttl time.Duration) time.Duration {
	return sent + TrustedFor(ttl, k.conf.Margin, k.conf.Drift) - k.traits.Granularity
}

// TrustedFor returns the trusted part of a lease. The margin takes at most half of the lease.
func TrustedFor(ttl, margin time.Duration, drift float64) time.Duration {
	if margin == 0 {
		margin = min(ttl/10, time.Second)
	}
	return ttl - time.Duration(2*drift*float64(ttl)) - min(margin, ttl/2)
}

// ghost returns when a claim has run out that may have entered by now.
func (k *Keeper) ghost(ttl time.Duration) time.Time {
	return time.Now().Add(ttl + time.Duration(2*k.conf.Drift*float64(ttl)) + k.traits.Granularity)
}

// endangered renews claims at once, for a driver that saw them in danger.
func (k *Keeper) endangered(ids ...string) {
	in := make(map[string]bool, len(ids))
	for _, id := range ids {
		in[id] = true
	}
	for i := range k.shards {
		var t todo
		s := &k.shards[i]
		s.mu.Lock()
		for _, n := range s.names.All() {
			for _, at := range n.slots {
				if c := at.claim; c != nil && in[c.id] {
					now := n.enterEvent(k.clock.now())
					n.engine.Alarm(now, c.slot)
					n.finishLocked(now, &t)
				}
			}
		}
		s.mu.Unlock()
		t.do()
	}
}

// HoldStill runs f while it holds the mutex of a name's shard, for tests of code that must not wait for it.
func (k *Keeper) HoldStill(text string, f func()) {
	s := k.place(text).shard
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}
