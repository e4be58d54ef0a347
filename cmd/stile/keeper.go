package main

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
)

// A keeper looks after CMD while the lock is held, and ends it, with its whole group, before the lease ends: with
// SIGTERM when no more than the grace is left, and with SIGKILL a moment before the end. If the claim is gone before that,
// broken by hand or forgotten by the store, another may hold already: then with SIGKILL as soon as the client knows.
// All times are the machine's clock: see boottime.
type keeper struct {
	lease    *stile.Lease
	child    *child
	terminal *terminal // nil if there is none
	grace    time.Duration
	lead     time.Duration   // what killing takes, with room to spare
	stop     <-chan struct{} // closed when CMD is to be ended; nil if signals say so
	since    time.Duration   // when the lease was had
	limit    time.Duration   // when --max-hold is over and CMD gets SIGTERM; 0 if there is none

	end    time.Duration // when the group is to be killed
	killAt time.Duration // when SIGTERM has had its time; 0 before that was sent
	killed time.Duration // when SIGKILL was sent; 0 before
	late   time.Duration // by how much watch came late at most; 0 before it did
	why    error         // why CMD was ended by us
	status syscall.WaitStatus
}

// leadFor returns how long before the end of a lease of this ttl what runs under it is killed.
func leadFor(ttl time.Duration) time.Duration {
	return min(max(ttl/30, 20*time.Millisecond), 500*time.Millisecond)
}

// update moves the end to where the last renewal put it, and tells the guard.
func (k *keeper) update() {
	now := boottime.Now() // before the deadline is read: an error is on the safe side
	end := now + time.Until(k.lease.Deadline()) - k.lead
	if end > k.end {
		k.end = end
		k.child.allow(end)
	}
}

// begin executes CMD under a lease that is not over, and tells the guard until when CMD may run. If the lease is over, why CMD
// does not begin is the error, and in k.why. Whoever was stopped since the lease was had, or slept, finds that out here; if it
// happens after the look at the clock, the guard finds it out.
func (k *keeper) begin(p *guard.Program, events *events) error {
	k.update()
	err := k.lease.Check()
	switch {
	case err != nil:
	case boottime.Now() >= k.end:
		err = errLate
	default:
		err = k.child.run(p, k.end)
	}
	// A guard that was killed since it did not answer in time need not be at fault.
	if errors.Is(err, errLate) || errors.Is(err, stile.ErrLost) || errors.Is(err, errGuard) && k.lease.Check() != nil {
		k.late = boottime.Now() - k.since
		err = k.ending(events)
		k.fail(err)
	}
	return err
}

// watch returns when nothing is left of CMD's group.
func (k *keeper) watch(events *events, signals <-chan os.Signal) {
	lost := k.lease.Context().Done()
	for due := positive(0); ; {
		k.late = max(k.late, boottime.Now()-due)
		k.update()
		due = k.look(events)
		k.child.alarm.Set(due)
		select {
		case n, ok := <-k.child.news:
			if !ok {
				k.unguarded()
				return
			}
			if k.heed(n, events); n.Gone {
				return
			}
		case <-lost:
			lost = nil
			k.fail(k.lease.Check())
			k.kill()
		case s := <-signals:
			if s == syscall.SIGCONT {
				k.terminal.goOn(k.child)
			} else {
				k.child.signal(s.(syscall.Signal))
			}
		case s := <-k.terminal.asked():
			k.terminal.heed(s.(syscall.Signal), k.child)
		case <-k.stop:
			k.stop = nil
			k.fail(errStopped)
			k.term(boottime.Now())
		case <-events.changed:
		case <-k.child.alarm.C:
		}
	}
}

// look does what the time demands, and returns when to look again.
func (k *keeper) look(events *events) time.Duration {
	now := boottime.Now()
	switch {
	case k.killed != 0:
		if now < k.killed+k.lead/2 {
			return k.killed + k.lead/2
		}
		k.child.killAll() // the guard does not get to it
		return now + k.lead
	case now >= k.end:
		k.fail(k.ending(events))
		k.kill()
		return k.killed + k.lead/2
	case k.killAt != 0 && now >= k.killAt:
		k.kill()
		return k.killed + k.lead/2
	case k.killAt != 0:
		return min(k.end, k.killAt)
	case k.limit != 0 && now >= k.limit:
		k.fail(errHeldLong)
		k.term(now)
		return min(k.end, k.killAt)
	case now >= k.end-k.grace:
		k.fail(k.ending(events))
		k.term(now)
		return min(k.end, k.killAt)
	}
	return min(k.end-k.grace, positive(k.limit))
}

// stoodStill returns for how long this process did not run, if it did not while CMD was to be asked to end: whoever runs
// then, and has a store that does not answer, sends SIGTERM in time. It returns 0 otherwise.
func (k *keeper) stoodStill() time.Duration {
	if k.late > k.grace+k.lead/2 {
		return k.late
	}
	return 0
}

// heed takes what the guard tells.
func (k *keeper) heed(n guard.News, events *events) {
	switch {
	case n.Late:
		k.fail(k.ending(events))
		k.killed = boottime.Now()
	case n.Stopped:
		if k.killAt == 0 && k.killed == 0 { // else it is for stile to end it in time
			k.terminal.stopped(n.Status.StopSignal(), k.child)
		}
	case n.Exited:
		k.status = n.Status
		if !n.Gone && k.killAt == 0 && k.killed == 0 {
			k.term(boottime.Now()) // what CMD left behind cannot stay: the lock is about to be released
		}
	}
}

func (k *keeper) term(now time.Duration) {
	k.child.signal(syscall.SIGTERM)
	k.killAt = now + k.grace
}

func (k *keeper) kill() {
	if k.killed == 0 {
		k.child.signal(syscall.SIGKILL)
		k.killed = boottime.Now()
	}
}

// fail notes why CMD is ended; the first reason counts.
func (k *keeper) fail(err error) {
	if k.why == nil {
		k.why = err
	}
}

// ending says why the end has come.
func (k *keeper) ending(events *events) error {
	if err := k.lease.Check(); err != nil {
		return err
	}
	name, err := events.failure()
	if name == "" {
		name = k.lease.Name()
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
func (k *keeper) unguarded() {
	k.fail(errGuard)
	look := time.NewTicker(guard.GroupPoll)
	defer look.Stop()
	for patience := boottime.Now() + orphanPatience; guard.Alive(k.child.pgid) && boottime.Now() < patience; <-look.C {
		k.child.killAll()
	}
}

// orphanPatience is how long the group of a guard that was killed is waited for. Its processes are dead by then, but stay
// in the group until the init process takes them away, and not every one does.
const orphanPatience = 5 * time.Second

// Events is what the client tells of its lease, or of the parts of it.
type events struct {
	changed chan struct{} // has an event after a change

	mu   sync.Mutex
	errs map[string]error // why the last renewal of a name failed
}

func newEvents() *events {
	return &events{changed: make(chan struct{}, 1), errs: map[string]error{}}
}

func (e *events) observe(event stile.Event) {
	switch event.Kind {
	case stile.EventRenewed, stile.EventJeopardy:
		e.mu.Lock()
		e.errs[event.Name] = event.Err
		e.mu.Unlock()
	case stile.EventAsked:
		speech.Warn("somebody asks for the lock %s; it is released when CMD ends", speech.Quoted(event.Name))
	}
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// failure returns which name could not be renewed, and why; nothing if all could.
func (e *events) failure() (name string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(e.errs)) {
		if err := e.errs[name]; err != nil {
			return name, err
		}
	}
	return "", nil
}

// settled waits for a lease of some length: a lock that was handed over comes with a short one, which is renewed at once.
func settled(ctx context.Context, lease *stile.Lease, e *events, least time.Duration) error {
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
