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

// A Keeper watches CMD while the lock is held, and ends it, with its whole group, before the lease ends: with SIGTERM when
// only the grace is left, and with SIGKILL a moment before the end. If the claim is gone earlier, because it was broken by
// hand or the store forgot it, another client may hold already: then the Keeper sends SIGKILL as soon as the client knows.
// All times are on the machine's clock: see boottime.
type Keeper struct {
	Lease    *stile.Lease
	Child    *Child
	terminal *terminal // nil if there is none
	Grace    time.Duration
	Lead     time.Duration   // the time that killing takes, with room to spare
	Stop     <-chan struct{} // closed when CMD must end; nil if signals say so
	Since    time.Duration   // when the lease was granted
	Limit    time.Duration   // when --max-hold is over and CMD gets SIGTERM; 0 if there is none

	end    time.Duration // when to kill the group
	killAt time.Duration // when the grace after SIGTERM is over; 0 before SIGTERM was sent
	killed time.Duration // when SIGKILL was sent; 0 before
	late   time.Duration // the largest delay of watch so far
	Why    error         // the reason why the Keeper ended CMD
	Status syscall.WaitStatus
}

// LeadFor returns how long before the end of a lease of this ttl the Keeper kills CMD.
func LeadFor(ttl time.Duration) time.Duration {
	return min(max(ttl/30, 20*time.Millisecond), 500*time.Millisecond)
}

// update sets the end by the last renewal, and informs the guard.
func (k *Keeper) update() {
	now := boottime.Now() // read before the deadline, so that any error is on the safe side
	end := now + time.Until(k.Lease.Deadline()) - k.Lead
	if end > k.end {
		k.end = end
		k.Child.allow(end)
	}
}

// Begin executes CMD under a lease that is not over, and gives the guard the time until which CMD may run. If the lease is
// over, the error has the reason, and so has Why. Begin notices a stop of this process, or a sleep of the machine, since the
// grant; the guard notices one after Begin has read the clock.
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
	// If the guard was killed because it did not answer in time, the fault need not be its own.
	if errors.Is(err, errLate) || errors.Is(err, stile.ErrLost) || errors.Is(err, errGuard) && k.Lease.Check() != nil {
		k.late = boottime.Now() - k.Since
		err = k.ending(events)
		k.fail(err)
	}
	return err
}

// Watch returns when CMD's group is gone.
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

// actOnTime sends the signals that are due, and returns when to check again.
func (k *Keeper) actOnTime(events *Events) time.Duration {
	now := boottime.Now()
	switch {
	case k.killed != 0:
		if now < k.killed+k.Lead/2 {
			return k.killed + k.Lead/2
		}
		k.Child.killAll() // the guard has not done so in time
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

// stoodStill returns how long this process did not run, if it did not run when SIGTERM was due. Otherwise it returns 0: a
// running process sends SIGTERM in time even if its store does not answer.
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
		if k.killAt == 0 && k.killed == 0 { // else this process ends it in time
			k.terminal.stopped(n.Status.StopSignal(), k.Child)
		}
	case n.Exited:
		k.Status = n.Status
		if !n.Gone && k.killAt == 0 && k.killed == 0 {
			k.term(boottime.Now()) // processes that CMD left behind cannot stay: the lock is about to be released
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

// fail notes the reason for ending CMD; the first reason counts.
func (k *Keeper) fail(err error) {
	if k.Why == nil {
		k.Why = err
	}
}

// ending returns the reason for the end.
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

// bare returns the reason in a library's error, without the name, which the message has anyway.
func bare(err error) error {
	if e, ok := errors.AsType[*stile.Error](err); ok {
		return e.Err
	}
	return err
}

var errHeldLong = errors.New("it was held for as long as --max-hold allows")

// unguarded ends the group if the guard has ended without reporting that the group is gone.
func (k *Keeper) unguarded() {
	k.fail(errGuard)
	look := time.NewTicker(guard.GroupPoll)
	defer look.Stop()
	for patience := boottime.Now() + orphanPatience; guard.Alive(k.Child.PGID) && boottime.Now() < patience; <-look.C {
		k.Child.killAll()
	}
}

// orphanPatience bounds the wait for the group of a killed guard. Its processes are dead by then, but stay in the group
// until the init process reaps them, and not every init process does.
const orphanPatience = 5 * time.Second

// Events has the client's events about its lease, or about the lease's parts.
type Events struct {
	changed chan struct{} // has an event after a change

	mu   sync.Mutex
	errs map[string]error // by name: the error of the last renewal
}

// NewEvents returns the events of a lease that is not granted yet.
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

// failure returns a name that could not be renewed, and the error; none if all were renewed.
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

// Settled waits for a lease of some length: a lock that was handed over comes with a short lease, which is renewed at once.
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
