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
	events *events // nil if nobody observes
	yields yields

	channels sync.Pool // of chan struct{} with room for one; the keeper's own, since channels must not leave a test's bubble

	base    context.Context // ends when the keeper is closed and nothing is on its way out any more
	stop    context.CancelFunc
	closing sync.Once
	clears  sync.WaitGroup // names whose claims are on their way out, once the keeper is closed, and requests apart
	failed  error          // of the driver's Close
}

// A Config is a keeper's settings, none of them left out but Observe and Slept.
type Config struct {
	Turn     time.Duration        // how long goroutines hand a claim on among themselves
	Margin   time.Duration        // how long before its end a lease is no longer trusted; 0 means a tenth, at most a second
	Drift    float64              // how much the rates of two clocks may differ
	Patience time.Duration        // how long a store that does not answer is asked again
	Require  []driver.Trait       // the traits that the store must have at each grant and renewal; nil means none
	Observe  func(Event)          // is told what happens, by a goroutine of its own
	Slept    func() time.Duration // how long the machine has slept since it booted; nil means to ask it
}

const shards = 32

// A shard is some of the names, and what guards them.
type shard struct {
	k      *Keeper
	next   atomic.Int64 // when the first on the agenda is due
	coming atomic.Int32 // how many readers wait for mu to want a name

	mu     sync.Mutex // guards what follows and the names, their engines, claims and holds; never held across I/O
	closed bool
	names  table.Table[name, *name]
	agenda agenda.Agenda[name, *name]
	spare  []*name // idle ones, to be used again

	apart    map[*call]bool // requests that the engines have no part in; Close cuts them, and waits until they are back
	clearing map[*name]bool // Close waits until their claims are out of the store; nil before that

	common engine.Common // of the engines

	_ [64]byte // the next shard is on another cache line: writes here must not slow it down
}

// Many readers of one name want mu again and again, each for a moment. A Mutex puts them to sleep as soon as others
// could run, and then each unlock has to wake one, which takes longer than the work under the mutex. So a reader
// retries some times, and lets others run between, before it sleeps. BenchmarkReaders is half again as fast by it.
const (
	readerTries = 16
	readerSteps = 8
)

// lock takes mu for one who wants a claim of these terms, or has it.
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

// come is lock for one who wants a claim of these terms. Others can see that a reader is coming.
func (s *shard) come(t *protocol.Terms) {
	if !t.Shared() {
		s.mu.Lock()
		return
	}
	s.coming.Add(1)
	s.lock(t)
	s.coming.Add(-1)
}

// maxSpare is how many idle names a shard keeps for use by others.
const maxSpare = 16

// maxStrays is how many claims of a line may be on their way out that nobody wants, before it asks for another. A caller
// that comes then waits for one of them, for Patience at most.
const maxStrays = 64

// New returns a keeper of claims in a store, which it closes when it is closed.
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

// A place is where a name is kept.
type place struct {
	shard *shard
	hash  uint64 // of the name, in the shard
}

// place returns the place of a name.
func (k *Keeper) place(text string) place {
	hash := maphash.String(k.seed, text)
	return place{&k.shards[hash%shards], hash / shards}
}

// Close ends everything that waits, and every lease that is held; it takes unused and waiting claims out of the store,
// but not those under leases that were not released, and closes the store. It lasts for Patience at most, and the time
// that the driver's own Close takes. Closing twice is harmless.
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

// Names returns how many names the keeper has something to do with.
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

// trusted returns until when a lease is trusted that the store confirmed: counted from before the request was sent,
// since the store began it at some moment after that, and less what two clocks may drift apart (Gray and Cheriton,
// SOSP 1989).
func (k *Keeper) trusted(sent, ttl time.Duration) time.Duration {
	return sent + TrustedFor(ttl, k.conf.Margin, k.conf.Drift) - k.traits.Granularity
}

// TrustedFor is how much of a lease is trusted: less than half of it never goes to the margin.
func TrustedFor(ttl, margin time.Duration, drift float64) time.Duration {
	if margin == 0 {
		margin = min(ttl/10, time.Second)
	}
	return ttl - time.Duration(2*drift*float64(ttl)) - min(margin, ttl/2)
}

// ghost returns when a claim that may stand in the store has run out, if it entered by now.
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

// HoldStill runs f with the lock of a name taken, for tests of code that must not wait for it.
func (k *Keeper) HoldStill(text string, f func()) {
	s := k.place(text).shard
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}
