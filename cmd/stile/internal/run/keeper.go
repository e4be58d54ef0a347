package run

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/guard"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/phrase"
)

// A Keeper looks after CMD while the lock is held, and ends it, with its whole group, before the lease ends: with
// SIGTERM when no more than the grace is left, and with SIGKILL a moment before the end. If the claim is gone before that,
// broken by hand or forgotten by the store, another may hold already: then with SIGKILL as soon as the client knows.
// All times are the machine's clock: see boottime.
type Keeper struct {
	Lease    *stile.Lease
	Child    *Child
	terminal *terminal // nil if there is none
	Grace    time.Duration
	Lead     time.Duration   // what killing takes, with room to spare
	Stop     <-chan struct{} // closed when CMD is to be ended; nil if signals say so
	Since    time.Duration   // when the lease was had
	Limit    time.Duration   // when --max-hold is over and CMD gets SIGTERM; 0 if there is none

	end    time.Duration // when the group is to be killed
	killAt time.Duration // when SIGTERM has had its time; 0 before that was sent
	killed time.Duration // when SIGKILL was sent; 0 before
	late   time.Duration // by how much watch came late at most; 0 before it did
	Why    error         // why CMD was ended by us
	Status syscall.WaitStatus
}

// LeadFor returns how long before the end of a lease of this ttl what runs under it is killed.
func LeadFor(ttl time.Duration) time.Duration {
	return min(max(ttl/30, 20*time.Millisecond), 500*time.Millisecond)
}

// update moves the end to where the last renewal put it, and informs the guard.
func (k *Keeper) update() {
	now := boottime.Now() // before the deadline is read: an error is on the safe side
	end := now + time.Until(k.Lease.Deadline()) - k.Lead
	if end > k.end {
		k.end = end
		k.Child.allow(end)
	}
}

// Begin executes CMD under a lease that is not over, and informs the guard until when CMD may run. If the lease is
// over, the reason is the error, and in k.why. A process that was stopped since the lease was had, or slept, finds
// that out here; if it happens after the look at the clock, the guard finds it out.
func (k *Keeper) Begin(p *guard.Program, events *Events) error {
	k.update()
	err := k.Lease.Check()
	switch {
	case err != nil:
	case boottime.Now() >= k.end:
		err = errLate
	default:
		err = k.Child.run(p, k.end)
	}
	// A guard that was killed since it did not answer in time need not be at fault.
	if errors.Is(err, errLate) || errors.Is(err, stile.ErrLost) || errors.Is(err, errGuard) && k.Lease.Check() != nil {
		k.late = boottime.Now() - k.Since
		err = k.ending(events)
		k.fail(err)
	}
	return err
}

// Watch returns when nothing is left of CMD's group.
func (k *Keeper) Watch(events *Events, signals <-chan os.Signal) {
	lost := k.Lease.Context().Done()
	for due := Positive(0); ; {
		k.late = max(k.late, boottime.Now()-due)
		k.update()
		due = k.actOnTime(events)
		k.Child.alarm.Set(due)
		select {
		case n, ok := <-k.Child.news:
			if !ok {
				k.unguarded()
				return
			}
			if k.heed(n, events); n.Gone {
				return
			}
		case <-lost:
			lost = nil
			k.fail(k.Lease.Check())
			k.kill()
		case s := <-signals:
			if s == syscall.SIGCONT {
				k.terminal.goOn(k.Child)
			} else {
				k.Child.signal(s.(syscall.Signal))
			}
		case s := <-k.terminal.asked():
			k.terminal.heed(s.(syscall.Signal), k.Child)
		case <-k.Stop:
			k.Stop = nil
			k.fail(errStopped)
			k.term(boottime.Now())
		case <-events.changed:
		case <-k.Child.alarm.C:
		}
	}
}

// actOnTime does what the time demands, and returns when to look again.
func (k *Keeper) actOnTime(events *Events) time.Duration {
	now := boottime.Now()
	switch {
	case k.killed != 0:
		if now < k.killed+k.Lead/2 {
			return k.killed + k.Lead/2
		}
		k.Child.killAll() // the guard does not get to it
		return now + k.Lead
	case now >= k.end:
		k.fail(k.ending(events))
		k.kill()
		return k.killed + k.Lead/2
	case k.killAt != 0 && now >= k.killAt:
		k.kill()
		return k.killed + k.Lead/2
	case k.killAt != 0:
		return min(k.end, k.killAt)
	case k.Limit != 0 && now >= k.Limit:
		k.fail(errHeldLong)
		k.term(now)
		return min(k.end, k.killAt)
	case now >= k.end-k.Grace:
		k.fail(k.ending(events))
		k.term(now)
		return min(k.end, k.killAt)
	}
	return min(k.end-k.Grace, Positive(k.Limit))
}

// stoodStill returns for how long this process did not run, if it did not while CMD was to be asked to end: whoever runs
// then, and has a store that does not answer, sends SIGTERM in time. It returns 0 otherwise.
func (k *Keeper) stoodStill() time.Duration {
	if k.late > k.Grace+k.Lead/2 {
		return k.late
	}
	return 0
}

// heed acts on the guard's news.
func (k *Keeper) heed(n guard.News, events *Events) {
	switch {
	case n.Late:
		k.fail(k.ending(events))
		k.killed = boottime.Now()
	case n.Stopped:
		if k.killAt == 0 && k.killed == 0 { // else it is for stile to end it in time
			k.terminal.stopped(n.Status.StopSignal(), k.Child)
		}
	case n.Exited:
		k.Status = n.Status
		if !n.Gone && k.killAt == 0 && k.killed == 0 {
			k.term(boottime.Now()) // what CMD left behind cannot stay: the lock is about to be released
		}
	}
}

func (k *Keeper) term(now time.Duration) {
	k.Child.signal(syscall.SIGTERM)
	k.killAt = now + k.Grace
}

func (k *Keeper) kill() {
	if k.killed == 0 {
		k.Child.signal(syscall.SIGKILL)
		k.killed = boottime.Now()
	}
}

// fail notes why CMD is ended; the first reason counts.
func (k *Keeper) fail(err error) {
	if k.Why == nil {
		k.Why = err
	}
}

// ending says why the end has come.
func (k *Keeper) ending(events *Events) error {
	if err := k.Lease.Check(); err != nil {
		return err
	}
	name, err := events.failure()
	if name == "" {
		name = k.Lease.Name()
	}
	return &stile.Error{Op: "renew", Name: name, Err: &stile.LostError{Reason: stile.ReasonExpired, Err: err}}
}

// bare returns the reason of a library's error, whose name is said anyway.
func bare(err error) error {
	if e, ok := errors.AsType[*stile.Error](err); ok {
		return e.Err
	}
	return err
}

var errHeldLong = errors.New("it was held for as long as --max-hold allows")

// unguarded ends the group after the guard has ended without saying that the group has.
func (k *Keeper) unguarded() {
	k.fail(errGuard)
	look := time.NewTicker(guard.GroupPoll)
	defer look.Stop()
	for patience := boottime.Now() + orphanPatience; guard.Alive(k.Child.PGID) && boottime.Now() < patience; <-look.C {
		k.Child.killAll()
	}
}

// orphanPatience is how long the group of a guard that was killed is waited for. Its processes are dead by then, but stay
// in the group until the init process takes them away, and not every one does.
const orphanPatience = 5 * time.Second

// Events has the client's events about its lease, or about the lease's parts.
type Events struct {
	changed chan struct{} // has an event after a change

	mu   sync.Mutex
	errs map[string]error // why the last renewal of a name failed
}

// NewEvents returns the events of a lease that is not had yet.
func NewEvents() *Events {
	return &Events{changed: make(chan struct{}, 1), errs: map[string]error{}}
}

// Observe is the client's observer.
func (e *Events) Observe(event stile.Event) {
	switch event.Kind {
	case stile.EventRenewed, stile.EventJeopardy:
		e.mu.Lock()
		e.errs[event.Name] = event.Err
		e.mu.Unlock()
	case stile.EventAsked:
		speech.Warn("somebody asks for the lock %s; it is released when CMD ends", phrase.Quoted(event.Name))
	}
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// failure returns which name could not be renewed, and why; nothing if all could.
func (e *Events) failure() (name string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(e.errs)) {
		if err := e.errs[name]; err != nil {
			return name, err
		}
	}
	return "", nil
}

// Settled waits for a lease of some length: a lock that was handed over comes with a short one, which is renewed at once.
func Settled(ctx context.Context, lease *stile.Lease, e *Events, least time.Duration) error {
	for time.Until(lease.Deadline()) < least {
		select {
		case <-e.changed:
		case <-lease.Context().Done():
			return lease.Check()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

var errStopped = errors.New("stile cron was asked to end")
