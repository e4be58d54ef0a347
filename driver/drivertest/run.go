package drivertest

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
)

// claim returns a new exclusive claim on the run's name, with leases that do not run out during the run.
func (r *run) claim() *driver.Claim {
	return &driver.Claim{
		Name: r.name, ID: rand.Text(), Client: "drivertest-" + rand.Text(),
		Weight: driver.All, Capacity: driver.All, TTL: 2 * time.Minute, Wait: 2 * time.Minute,
	}
}

// brief returns an exclusive claim whose leases run out soon.
func (r *run) brief() *driver.Claim {
	c := r.claim()
	c.TTL, c.Wait = r.lease(), r.lease()
	return c
}

// delay returns a lock-delay, or 0 if the store has none.
func (r *run) delay(d time.Duration) time.Duration {
	if !r.traits.Delay {
		return 0
	}
	return d
}

func (r *run) shared() *driver.Claim { return r.permit(1, driver.All) }

func (r *run) permit(weight, capacity int64) *driver.Claim {
	c := r.claim()
	c.Weight, c.Capacity = weight, capacity
	return c
}

// enter enters a claim that must be let in, and returns its place.
func (r *run) enter(d driver.Driver, c *driver.Claim) driver.Place {
	r.Helper()
	var p driver.Place
	err := r.answered(d, c, func() (err error) {
		p, err = d.Enter(r.ctx, c)
		return err
	})
	if err != nil {
		r.Fatalf("enter: %v; want a place", err)
	}
	return p
}

const (
	askOthers = time.Second            // after that long without an answer, another client asks the store
	prompt    = 500 * time.Millisecond // bound of the other client's call if the store answers
)

// answered makes a call about a claim. It repeats the call if the machine is the reason for the missing answer: the store
// does not answer another client promptly either, or the machine stood still for the lease, which may then end on one node
// before all have voted. A driver that loses an answer is not excused.
func (r *run) answered(d driver.Driver, c *driver.Claim, call func() error) error {
	for n := 0; ; n++ {
		begin, busy := time.Now(), make(chan bool, 1)
		ask := time.AfterFunc(askOthers, func() { busy <- r.busy(d) })
		err := call()
		took := time.Since(begin)
		excused := !ask.Stop() && <-busy || took >= c.TTL
		if n == 10 || !excused || !driver.IsUnreachable(err) {
			return err
		}
		r.Logf("it is asked again after %v: %v", took, err)
	}
}

// busy reports whether the store does not answer another client promptly.
func (r *run) busy(d driver.Driver) bool {
	other, c := r.b, r.claim()
	if d == r.b {
		other = r.a
	}
	c.Name, c.Try = r.name+"/other", true
	begin := time.Now()
	_, err := other.Enter(r.ctx, c)
	took := time.Since(begin)
	_ = other.Leave(r.ctx, &driver.Release{Claim: c})
	return took > prompt && (err == nil || driver.IsUnreachable(err))
}

// holds enters a claim that must hold.
func (r *run) holds(d driver.Driver, c *driver.Claim) (p driver.Place) {
	r.Helper()
	r.soon(func() bool {
		p = r.enter(d, c)
		return p.Holds
	})
	if !p.Holds {
		r.Fatalf("enter = %+v; want a claim that holds", p)
	}
	return p
}

// waits enters a claim that must not hold.
func (r *run) waits(d driver.Driver, c *driver.Claim) driver.Place {
	r.Helper()
	p := r.enter(d, c)
	if p.Holds {
		r.Fatalf("enter = %+v; want a claim that waits", p)
	}
	return p
}

func (r *run) leave(d driver.Driver, c *driver.Claim) {
	r.Helper()
	r.release(d, &driver.Release{Claim: c})
}

// leaveKept makes a claim leave, and its lock stays taken for a while.
func (r *run) leaveKept(d driver.Driver, c *driver.Claim, length time.Duration) {
	r.Helper()
	r.release(d, &driver.Release{Claim: c, Keep: length})
}

func (r *run) release(d driver.Driver, l *driver.Release) {
	r.Helper()
	err := removed(func(call func() error) error { return r.answered(d, l.Claim, call) },
		func() error { return d.Leave(r.ctx, l) })
	if err != nil {
		r.Fatalf("leave: %v; want nil", err)
	}
}

// rid removes a claim if it is there.
func (r *run) rid(d driver.Driver, c *driver.Claim) {
	r.Helper()
	if err := d.Leave(r.ctx, &driver.Release{Claim: c}); err != nil && !errors.Is(err, driver.ErrGone) {
		r.Fatalf("leave: %v; want nil or ErrGone", err)
	}
}

func (r *run) renew(d driver.Driver, c *driver.Claim) driver.Renewal {
	r.Helper()
	var answers []driver.Renewal
	_ = r.answered(d, c, func() error {
		if answers = d.Renew(r.ctx, []*driver.Claim{c}); len(answers) != 1 {
			r.Fatalf("renew of one claim has %d answers", len(answers))
		}
		return answers[0].Err
	})
	return answers[0]
}

// gone fails unless the error says that the claim is not there.
func (r *run) gone(what string, err error) {
	r.Helper()
	if !errors.Is(err, driver.ErrGone) {
		r.Errorf("%s = %v; want ErrGone", what, err)
	}
}

// free reports whether a new exclusive claim would hold now, and leaves nothing behind.
func (r *run) free() bool {
	r.Helper()
	c := r.claim()
	c.Try = true
	if !r.enter(r.b, c).Holds {
		return false
	}
	r.leave(r.b, c)
	return true
}

// soon reports whether a condition is true. In a store where a claim that left may block for a moment, soon checks again for
// that long.
func (r *run) soon(condition func() bool) bool {
	r.Helper()
	is := condition()
	if is || !r.store.Halfway || r.traits.Ordered {
		return is
	}
	for over := awake.For(r.store.Wake); !is && !awake.Over(over) && poll(r.ctx); {
		is = condition()
	}
	r.Logf("what is expected at once comes a moment later: %v", is)
	return is
}

// until waits for a condition, and returns how long that took. Time in which the machine stands still does not count.
func (r *run) until(bound time.Duration, what string, condition func() bool) time.Duration {
	r.Helper()
	start := time.Now()
	if !r.within(bound, condition) {
		r.Fatalf("not within %v: %s", bound, what)
	}
	return time.Since(start)
}

// within reports whether a condition becomes true within a bound. Time in which the machine stands still does not count.
func (r *run) within(bound time.Duration, condition func() bool) bool {
	for over := awake.For(bound); poll(r.ctx); {
		if condition() {
			return true
		}
		if awake.Over(over) {
			break
		}
	}
	return false
}

// during fails if a condition does not stay true for a while.
func (r *run) during(length time.Duration, what string, condition func() bool) {
	r.Helper()
	if !r.steadily(time.Now(), length, what, condition) {
		r.Fatalf("not for %v: %s", length, what)
	}
}

// steadily is during, but reports false if the machine stood still long enough for a lease to run out: then a false
// condition proves nothing. Each check restarts the lease.
func (r *run) steadily(leased time.Time, length time.Duration, what string, condition func() bool) bool {
	r.Helper()
	start := time.Now()
	for last := leased; time.Since(start) < length && poll(r.ctx); {
		began := time.Now()
		if !condition() && began.Sub(start) < length {
			if still := time.Since(last); still >= r.lease() {
				r.Logf("%s: %v between two looks says nothing", what, still)
				return false
			}
			r.Fatalf("not for %v: %s (false after %v)", length, what, time.Since(start))
		}
		last = began
	}
	return true
}

// poll waits a moment, and reports false when the context has ended.
func poll(ctx context.Context) bool {
	timer := time.NewTimer(5 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// turn waits as a client does: it awaits and enters again until the claim holds. The claim must have entered.
func (r *run) turn(ctx context.Context, d driver.Driver, c *driver.Claim) (driver.Place, error) {
	for {
		p, err := d.Enter(ctx, c)
		if err != nil || p.Holds {
			return p, err
		}
		again := min(c.Wait/3, r.store.Wake+r.store.Slack) // late enough for a lost notification to be noticed
		if p.Retry > 0 {
			again = min(again, p.Retry+time.Millisecond)
		}
		waiting, cancel := context.WithTimeout(ctx, again)
		told, err := d.Await(waiting, c)
		ended := waiting.Err() != nil
		cancel()
		switch {
		case err != nil && (!ended || ctx.Err() != nil):
			return told, err
		case err == nil && told.Holds:
			return told, nil
		}
	}
}
