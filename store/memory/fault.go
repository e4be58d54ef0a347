package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Verb names a method of [Driver]. The empty verb stands for all of them.
type Verb string

// The verbs whose calls can fail on cue and are counted.
const (
	Enter Verb = "enter"
	Await Verb = "await"
	Renew Verb = "renew"
	Leave Verb = "leave"
	List  Verb = "list"
	Watch Verb = "watch"
	Break Verb = "break"

	Identity Verb = "identity"
)

// verbs are all of them, the most frequent first.
var verbs = [...]Verb{Enter, Leave, Renew, Await, List, Watch, Break, Identity}

// ErrInjected is the error of a call whose request or reply was lost on cue. It leaves the outcome unknown.
var ErrInjected = errors.New("the connection broke (injected)")

// A Fault changes the outcome of the next calls of one driver. A call meets the first remaining fault for its verb. The zero
// Fault meets one call of any verb, and has no effect.
//
// If the context of a call ends during a wait of its fault, the call returns the context's cause.
type Fault struct {
	Verb   Verb          // which calls; empty means all
	Times  int           // how many calls; 0 means one, a negative number means all until Heal
	Before time.Duration // the call waits this long before it is applied
	After  time.Duration // the call waits this long after it was applied
	Late   bool          // with Before: it is applied then even if its caller has given up
	Drop   bool          // the request is lost: not applied, ErrInjected
	Lose   bool          // the reply is lost: applied, ErrInjected
	Hang   bool          // the call waits for its context instead of returning; not applied unless Lose is set
	Err    error         // the call is not applied and returns this error
}

// Inject adds a fault after the remaining ones.
func (d *Driver) Inject(f Fault) {
	if f.Times == 0 {
		f.Times = 1
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &f)
	d.setTroubleLocked()
}

// A Link is the state of the connection between a driver and its store.
type Link int

const (
	Up         Link = iota // calls and notifications pass
	Unnotified             // calls pass, notifications are lost: Await and Watch see no change
	Refused                // calls fail at once, as unreachable and unsent; notifications are lost
	Silent                 // calls wait for their contexts, and are not applied; notifications are lost
)

// SetLink changes the state of the driver's connection. A call that already hangs goes on hanging. An Await loses the
// notifications that come while the link is not up.
func (d *Driver) SetLink(l Link) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.link = l
	d.setTroubleLocked()
}

// Heal removes all remaining faults and sets the link up.
func (d *Driver) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults, d.link = nil, Up
	d.setTroubleLocked()
}

// Calls returns how many calls of a verb have begun on this driver, including failed ones.
func (d *Driver) Calls(v Verb) int {
	n := int64(0)
	for i := range d.calls {
		if v == "" || v == verbs[i] {
			n += d.calls[i].Load()
		}
	}
	return int(n)
}

// setTroubleLocked sets trouble after the link or the faults have changed.
func (d *Driver) setTroubleLocked() { d.trouble.Store(d.link != Up || len(d.faults) > 0) }

func (d *Driver) count(v Verb) { d.calls[slices.Index(verbs[:], v)].Add(1) }

// passes reports that nothing blocks a call, and then counts it. Otherwise the call must go through call, which costs more:
// it needs the request in a form that outlives its caller.
func (d *Driver) passes(ctx context.Context, v Verb) bool {
	if d.trouble.Load() || d.closed() || ctx.Err() != nil {
		return false
	}
	d.count(v)
	return true
}

// Steal removes the claim at the head of a name, as if it had run out unnoticed, and enters a claim of another owner with
// the same weight and a lease of ttl. So the next renewal of the former head finds it gone. The thief stands behind the
// waiting claims. The error is [driver.ErrGone] if the name has no claims. The driver's link and faults have no effect.
func (d *Driver) Steal(name string, ttl time.Duration) (thief driver.ClaimInfo, err error) {
	d.store.do(d.prefix+name, func(q *queue, now int64) {
		capacity := q.Capacity
		var head driver.ClaimInfo
		if head, err = q.Break(now, 0); err != nil {
			return
		}
		_, err = q.Enter(now, d.store.stamp(now), &driver.Claim{
			Name: name, ID: fmt.Sprintf("thief-%d", q.Last), Client: "thief", Record: "thief",
			Weight: head.Weight, Capacity: capacity, TTL: ttl, Wait: ttl,
		})
		claims := q.List(now)
		thief = claims[len(claims)-1]
	})
	return thief, err
}

// call makes one call through the link and the faults. It returns the result of apply, unless they withhold it.
func call[T any](ctx context.Context, d *Driver, v Verb, apply func() (T, error)) (T, error) {
	var nothing T
	f, link := d.begin(v)
	switch {
	case d.closed():
		return nothing, driver.ErrClosed
	case ctx.Err() != nil:
		return nothing, driver.Ended(ctx, false)
	case link == Refused:
		return nothing, driver.Unsent(driver.Unreachable(fmt.Errorf("%w: the link is cut", ErrInjected)))
	case link == Silent:
		return nothing, d.pause(ctx, -1)
	}
	if err := d.pause(ctx, f.Before); err != nil {
		if f.Late && f.applies() {
			// The request is on its way, so it still arrives at its time.
			time.AfterFunc(time.Until(f.due), func() { _, _ = apply() }) // nobody gets the answer
		}
		return nothing, err
	}
	if !f.applies() {
		switch {
		case f.Err != nil:
			return nothing, f.Err
		case f.Hang:
			return nothing, d.pause(ctx, -1)
		}
		return nothing, ErrInjected
	}
	got, answer := apply()
	if err := d.pause(ctx, f.After); err != nil {
		return nothing, err
	}
	switch {
	case f.Hang:
		return nothing, d.pause(ctx, -1)
	case f.Lose:
		return nothing, ErrInjected
	}
	return got, answer
}

// A meeting is a fault that a call has met.
type meeting struct {
	Fault
	due time.Time // when the wait before the call is over
}

func (m *meeting) applies() bool { return m.Err == nil && !m.Drop && (m.Lose || !m.Hang) }

// begin counts a call and takes the fault that it meets.
func (d *Driver) begin(v Verb) (meeting, Link) {
	d.count(v)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.link == Refused || d.link == Silent {
		return meeting{}, d.link
	}
	for i, f := range d.faults {
		if f.Verb != "" && f.Verb != v {
			continue
		}
		if f.Times > 0 {
			f.Times--
		}
		if f.Times == 0 {
			d.faults = append(d.faults[:i:i], d.faults[i+1:]...)
			d.setTroubleLocked()
		}
		return meeting{*f, time.Now().Add(f.Before)}, d.link
	}
	return meeting{}, d.link
}

// pause waits for a duration, or for ever if it is negative, unless the context or the driver ends first.
func (d *Driver) pause(ctx context.Context, length time.Duration) error {
	if length == 0 {
		return nil
	}
	var over <-chan time.Time
	if length > 0 {
		t := time.NewTimer(length)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return driver.Ended(ctx, true)
	case <-d.done:
		return driver.Unknown(driver.ErrClosed)
	}
}

// wait waits for a notification, unless the context or the driver ends first. Notifications while the link is not up are
// lost.
func (d *Driver) wait(ctx context.Context, w *wait) error {
	for {
		select {
		case <-w.event:
			if d.hears() {
				return nil
			}
		case <-ctx.Done():
			return driver.Ended(ctx, true)
		case <-d.done:
			return driver.ErrClosed
		}
	}
}

func (d *Driver) hears() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.link == Up
}

func (d *Driver) closed() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}
