package casqueue

import (
	"time"

	"github.com/stilelock/stile/driver"
)

// A moment is when a queue is changed, in microseconds of the store's clock.
type moment struct {
	now   int64 // the clock's time for this queue; leases are judged by it
	ahead int64 // how much later the change may be made
	step  int64 // between two readings of the clock
	stamp int64 // the least ticket
}

// moment returns the time for changing a queue that was seen.
func (d *Driver) moment(s *sight) moment {
	m := moment{now: s.now, ahead: d.clock(s) + d.step - s.now, step: d.step, stamp: 1}
	if d.tells {
		m.stamp = m.now + m.ahead
	}
	return m
}

// clock returns the time of the store's clock, or less, in microseconds.
func (d *Driver) clock(s *sight) int64 { return max(s.now, d.store.Clock().Microseconds()) }

// lease returns the length to ask for, so that at least this length is left when the change is made. The clock shows whole
// steps, so a lease is longer by one step. It is longer by another step, since a clock that reads the time once a step, a
// little late, sometimes skips a step.
func (m *moment) lease(length time.Duration) time.Duration {
	micros := length.Microseconds()
	if m.step > 0 {
		micros = (micros+m.step-1)/m.step*m.step + 2*m.step
	}
	return time.Duration(micros+m.ahead) * time.Microsecond
}

// stretch returns the claim with leases of such lengths.
func (m *moment) stretch(c *driver.Claim) *driver.Claim {
	longer := *c
	longer.TTL, longer.Wait = m.lease(c.TTL), m.lease(c.Wait)
	return &longer
}

// enter is [driver.Queue.Enter]. A new claim enters when the change is made, not when the queue was seen.
func (m *moment) enter(q *driver.Queue, c *driver.Claim) (driver.Place, error) {
	last := q.Last
	p, err := q.Enter(m.now, m.stamp, m.stretch(c))
	if q.Last != last {
		q.Entries[len(q.Entries)-1].Since = m.now + m.ahead
	}
	return p, err
}

// place returns the place of a claim that asked for a lease at a moment. It also reports whether the claim, if it holds,
// counts as notified.
func (d *Driver) place(s *sight, c *driver.Claim, at moment) (p driver.Place, told bool, err error) {
	q := s.clone()
	if p, err = q.Look(s.now, c); err != nil {
		return driver.Place{}, false, err
	}
	e := &q.Entries[p.Ahead]
	asked := c.Wait
	if p.Holds {
		asked = c.TTL
	}
	p.TTL = time.Duration(e.Ends-d.clock(s)-d.step) * time.Microsecond // up to one step more has passed
	if longest := at.now + at.lease(asked).Microseconds(); e.Ends <= longest+2*d.step {
		p.TTL = min(p.TTL, asked)
	} // else it has an earlier lease that lasts longer
	p.TTL = max(p.TTL, 0)
	p.Retry = 0 // waiters look at the store's clock
	p.Blocker = d.shown(p.Blocker)
	return p, e.Notified, nil
}

// shown returns a claim for people, with the lease that its client requested, not the longer one that the store gave.
func (d *Driver) shown(s driver.ClaimInfo) driver.ClaimInfo {
	if s.Remaining > 0 {
		given := time.Duration(3*d.step) * time.Microsecond
		s.Remaining = max(s.Remaining-given, min(s.Remaining, time.Millisecond))
	}
	s.Since = max(s.Since, 0)
	return s
}
