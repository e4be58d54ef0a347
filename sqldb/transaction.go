package sqldb

import (
	"context"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A transaction is one verb at work. Nobody else writes while it is open.
type transaction struct {
	s          *session
	now, stamp int64 // of the lease clock, and for new tickets
	last       int64 // highest ticket given
	wrote      bool
	woken      []driver.Entry
}

// change runs f in a transaction, commits if f has written, and tells those whom f has woken. An error other than that
// of a failed commit says that nothing was changed.
func (d *Driver) change(ctx context.Context, f func(t *transaction) error) error {
	if err := d.moved(); err != nil {
		return driver.Rejected(err)
	}
	s := d.write
	if err := d.take(ctx, s); err != nil {
		return err
	}
	defer s.give()
	if err := d.patiently(ctx, s.begin); err != nil {
		return err
	}
	t := &transaction{s: s, now: d.now(), stamp: stamp()} // not before the lock is ours: waiting for it takes time
	err := d.adopt(t)
	if err == nil {
		last := t.last
		if err = f(t); err == nil && t.last != last {
			err = s.exec("last", t.last)
		}
	}
	if err != nil || !t.wrote {
		s.undo()
		return driver.Rejected(explain(d.options.Label, err))
	}
	if err := s.exec("commit"); err != nil {
		full := code(err) == codeFull || busy(err)
		s.undo()
		if err = explain(d.options.Label, err); full {
			return driver.Rejected(err)
		}
		return err
	}
	d.poll.tell(t.woken)
	return nil
}

// begin starts a transaction. A connection that cannot is not used again.
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

func (d *Driver) moved() error {
	if d.options.Moved == nil {
		return nil
	}
	if err := d.options.Moved(); err != nil {
		return &movedError{err}
	}
	return nil
}

// adopt reads the state of the store, and voids the claims of an earlier boot: the processes that made them ended with
// it, and their times belong to another clock.
func (d *Driver) adopt(t *transaction) error {
	m, err := d.readMeta(t.s)
	if err != nil {
		return err
	}
	t.last = m.last
	if m.boot == d.boot {
		return nil
	}
	t.wrote = true
	if err := t.s.exec("void"); err != nil {
		return err
	}
	return t.s.exec("boot", d.boot)
}

// do runs f on the queue of a name and writes what has changed, also if f was told no: time has passed all the same.
func (t *transaction) do(name string, f func(q *driver.Queue)) error {
	q, err := readQueue(t.s, name)
	if err != nil {
		return err
	}
	before := slices.Clone(q.Entries)
	q.Last = t.last
	f(q)
	t.woken = append(t.woken, q.Wake(t.now)...)
	t.last = q.Last
	return t.save(name, q, before)
}

// save writes the difference between two states of a queue, both in ticket order.
func (t *transaction) save(name string, q *driver.Queue, before []driver.Entry) error {
	after := q.Entries
	for len(before) > 0 || len(after) > 0 {
		var err error
		switch {
		case len(after) == 0 || len(before) > 0 && before[0].Ticket < after[0].Ticket:
			err = t.write("delete", before[0].Ticket)
			before = before[1:]
		case len(before) == 0 || after[0].Ticket < before[0].Ticket:
			e := after[0]
			err = t.write("insert", name, e.Ticket, e.ID, e.Client, e.Owner, e.Record, e.Weight, q.Capacity, e.Since, e.Ends, e.Delay, e.Told, e.Left)
			after = after[1:]
		default:
			if e := after[0]; e != before[0] {
				err = t.write("update", e.Ends, e.Told, e.Left, e.Ticket)
			}
			before, after = before[1:], after[1:]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) write(statement string, args ...any) error {
	t.wrote = true
	return t.s.exec(statement, args...)
}

func readQueue(s *session, name string) (*driver.Queue, error) {
	q := &driver.Queue{}
	err := s.rows("queue", name, func(scan func(...any) error) (bool, error) {
		_, err := scanEntry(q, scan)
		return true, err
	})
	return q, err
}

// scanEntry appends a row to a queue, and returns the name that it is of.
func scanEntry(q *driver.Queue, scan func(...any) error) (name string, err error) {
	var e driver.Entry
	err = scan(&name, &e.Ticket, &e.ID, &e.Client, &e.Owner, &e.Record, &e.Weight, &q.Capacity, &e.Since, &e.Ends, &e.Delay, &e.Told, &e.Left)
	q.Entries = append(q.Entries, e)
	return name, err
}
