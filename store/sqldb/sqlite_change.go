package sqldb

import (
	"context"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A transaction is one verb in progress. Nobody else writes while it is open.
type transaction struct {
	s          *session
	now, stamp int64 // of the lease clock, and for new tickets
	last       int64 // highest ticket given
	wrote      bool
	meta       meta // as the store has it
	boot       string
}

// seenEvery is the longest time between two notes of the clock in the store. After an unknown boot, claims outlast their
// leases by this time.
const seenEvery = int64(time.Second / time.Microsecond)

// Change implements [Store]. The outcome is unknown only after an error of the commit itself.
func (d *lite) Change(ctx context.Context, steps []Step) error {
	if len(steps) == 0 {
		return nil
	}
	if err := d.moved(); err != nil {
		return driver.Refused(err)
	}
	s := d.write
	if err := d.take(ctx, s); err != nil {
		return err
	}
	defer s.give()
	if err := d.patiently(ctx, s.begin); err != nil {
		return err
	}
	t := &transaction{s: s, now: d.now(), stamp: stamp(), boot: d.boot} // after the wait for the lock, which takes time
	q, err := d.adopt(t, steps[0].Name)
	if err == nil {
		err = t.run(steps, q)
	}
	if err != nil || !t.wrote {
		s.undo()
		return driver.Refused(explain(d.options.Label, err))
	}
	if err := s.exec("commit"); err != nil {
		full := code(err) == codeFull || busy(err)
		s.undo()
		if err = explain(d.options.Label, err); full {
			return driver.Refused(err)
		}
		return err
	}
	d.writeBack(s)
	return nil
}

// run does steps. The queue of the first step was read already. Steps on one name that follow each other read its queue once
// and write the changes once.
func (t *transaction) run(steps []Step, q *driver.Queue) error {
	for len(steps) > 0 {
		name := steps[0].Name
		n := slices.IndexFunc(steps, func(s Step) bool { return s.Name != name })
		if n < 0 {
			n = len(steps)
		}
		if q == nil {
			var err error
			if q, err = readQueue(t.s, name); err != nil {
				return err
			}
		}
		if err := t.do(steps[:n], q); err != nil {
			return err
		}
		steps, q = steps[n:], nil
	}
	if !t.wrote || t.last == t.meta.last && t.boot == t.meta.boot && t.now-t.meta.seen < seenEvery {
		return nil
	}
	return t.s.exec("mark", t.boot, t.last, max(t.now, t.meta.seen))
}

// begin starts a transaction. A connection that cannot start one is not used again.
func (s *session) begin() error {
	err := s.exec("begin")
	if err != nil && !busy(err) {
		s.drop()
	}
	return err
}

// undo ends a transaction without effect.
func (s *session) undo() {
	if err := s.exec("rollback"); err != nil {
		s.drop()
	}
}

// stamp returns the wall clock for new tickets, or 0 if it is so far off that tickets would run out of numbers.
func stamp() int64 {
	if now := time.Now().UnixMicro(); 0 < now && now < 1<<52 {
		return now
	}
	return 0
}

func (d *lite) moved() error {
	if d.options.Moved == nil {
		return nil
	}
	if err := d.options.Moved(); err != nil {
		return &LostError{err}
	}
	return nil
}

// adopt reads the state of the store and the queue of a name, and voids the claims of an earlier boot: their processes ended
// with that boot, and their times belong to another clock.
func (d *lite) adopt(t *transaction, name string) (q *driver.Queue, err error) {
	if t.meta, q, err = d.readState(t.s, name); err != nil {
		return nil, err
	}
	t.last = t.meta.last
	if !d.rebooted(t.meta, t.now) {
		return q, nil
	}
	t.wrote = true
	t.meta.boot, t.meta.seen = t.boot, t.now
	if err := t.s.exec("void"); err != nil {
		return nil, err
	}
	return &driver.Queue{}, t.s.exec("mark", t.boot, t.last, t.now)
}

// rebooted reports whether it is certain that the host has booted since the store was written.
//
// Two ids prove it only if both are the kernel's own: containers may have ids of their own, so that two of them, or one and
// the host, differ without a boot in between. The clock proves it in any case, since it restarts at a boot and otherwise
// never runs back. Without a proof the claims last until their leases end: if the host has booted after all, this only
// delays waiters, whereas voiding the claims of a host that has not booted would let two hold.
func (d *lite) rebooted(m meta, now int64) bool {
	switch {
	case d.boot == "":
		return false // the wall clock says nothing about boots
	case d.boot != unknownBoot && m.boot != unknownBoot:
		return m.boot != d.boot
	}
	return now < m.seen
}

// do does steps on one queue, and writes the changes.
func (t *transaction) do(steps []Step, q *driver.Queue) error {
	before := slices.Clone(q.Entries)
	q.Last = t.last
	for i := range steps {
		steps[i].Do(t.now, t.stamp, q)
	}
	t.last = q.Last
	return Save(&queueWriter{t, steps[0].Name, q}, before, q.Entries)
}

// A queueWriter is the [Writer] of one queue.
type queueWriter struct {
	t    *transaction
	name string
	q    *driver.Queue
}

func (w *queueWriter) Insert(e *driver.Entry) error {
	return w.t.write("insert", w.name, e.Ticket, e.ID, e.Client, e.Owner, e.Record, e.Weight, w.q.Capacity, e.Since, e.Ends, e.Delay, e.Notified, e.Left)
}

func (w *queueWriter) Update(e *driver.Entry) error {
	return w.t.write("update", e.Ends, e.Notified, e.Left, e.Ticket)
}

func (w *queueWriter) Amend(e *driver.Entry) error {
	return w.t.write("amend", e.Ends, e.Notified, e.Left, e.Weight, e.Record, e.Ticket)
}

func (w *queueWriter) Delete(ticket int64) error { return w.t.write("delete", ticket) }

func (t *transaction) write(statement string, args ...any) error {
	t.wrote = true
	return t.s.exec(statement, args...)
}
