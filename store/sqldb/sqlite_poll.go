package sqldb

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

// Read implements [Store].
func (d *lite) Read(ctx context.Context, query *driver.Query) (list []Named, now int64, err error) {
	if err := d.moved(); err != nil {
		return nil, 0, err
	}
	if err := d.take(ctx, d.read); err != nil {
		return nil, 0, err
	}
	defer d.read.give()
	err = d.patiently(ctx, func() (err error) {
		list, err = d.queues(ctx, query)
		return err
	})
	return list, d.now(), err
}

// queues reads the queues that a query selects. The read session must be taken.
func (d *lite) queues(ctx context.Context, query *driver.Query) (list []Named, err error) {
	m, err := d.readMeta(d.read)
	if err != nil || d.rebooted(m, d.now()) {
		return nil, err
	}
	if query.Name != "" {
		q, err := readQueue(d.read, query.Name)
		return []Named{{query.Name, q}}, err
	}
	return list, d.read.rows("queues", []any{query.Prefix}, func(scan func(...any) error) (bool, error) {
		driver.Heard(ctx, 1)
		next := &driver.Queue{}
		name, err := scanEntry(next, scan)
		if err != nil || !strings.HasPrefix(name, query.Prefix) {
			return false, err
		}
		if n := len(list); n > 0 && list[n-1].Name == name {
			q := list[n-1].Queue
			q.Entries = append(q.Entries, next.Entries...)
			return true, nil
		}
		list = append(list, Named{name, next})
		return true, nil
	})
}

const movedEvery = 100 * time.Millisecond

// Pause implements [Store]. Locks that change hands do so every millisecond or two, and a lock that is held for long must
// not cost much. Most of the cost is the timer itself.
func (d *lite) Pause(quiet time.Duration, _ int) time.Duration {
	switch {
	case quiet < 50*time.Millisecond:
		return time.Millisecond
	case quiet < time.Second:
		return 2 * time.Millisecond
	default:
		return Slow(quiet, 7*time.Millisecond, wokenPause)
	}
}

// Poll implements [Store]. It reads the claims only if the database has changed, which a wakeup shows too, or if the request
// asks for kept claims.
//
// A woken waiter runs one statement in place of three, on the woken thread. A hand-over to another client takes 157 µs in
// place of 249 (medians of 9 interleaved rounds of: benchbefore -stores sqlite), and one to another process 365 µs in place
// of 471, beside 231 for a bare row (of 12, of: bench -store=sqlite -only='^handover$'), on a busy machine.
func (d *lite) Poll(ctx context.Context, g *PollRequest) (s *PollResult, err error) {
	if err := d.stays(); err != nil {
		return nil, err
	}
	version := d.version
	err = d.reading(ctx, func() error {
		if !g.Woken {
			err := d.read.row("version", nil, &version)
			if err != nil || version == d.version && !g.Fresh && !g.Kept {
				return err
			}
		}
		s, err = d.readStates(g)
		return err
	})
	switch {
	case err == nil && s != nil:
		d.version = version
	case err != nil && !driver.IsUnreachable(err) && ctx.Err() == nil:
		if lost := d.moved(); lost != nil {
			return nil, lost // it says more than SQLite's error for a file that goes while it is opened
		}
	}
	return s, err
}

// stays returns an error if the database has moved, which it checks from time to time.
func (d *lite) stays() error {
	if time.Since(d.checked) <= movedEvery {
		return nil
	}
	d.checked = time.Now()
	return d.moved()
}

// readStates reads the claims and queues of a request. The read session must be taken.
func (d *lite) readStates(g *PollRequest) (*PollResult, error) {
	s := &PollResult{States: make([]State, len(g.Claims)), Queues: map[string]*driver.Queue{}}
	if err := d.states(g.Claims, s.States); err != nil {
		return nil, err
	}
	if g.Kept {
		if err := d.kept(g.Claims, s.States); err != nil {
			return nil, err
		}
	}
	for _, name := range g.Names {
		q, err := readQueue(d.read, name)
		if err != nil {
			return nil, err
		}
		s.Queues[name] = q
	}
	s.Now = d.now()
	return s, nil
}

// reading runs f once on the read session. A locked database is unreachable.
func (d *lite) reading(ctx context.Context, f func() error) error {
	if err := d.take(ctx, d.read); err != nil {
		return err
	}
	defer d.read.give()
	switch err := f(); {
	case err == nil:
		return nil
	case busy(err):
		return driver.Unreachable(err)
	default:
		d.read.drop() // the next call has a connection of its own
		return explain(d.options.Label, err)
	}
}

// states checks the state of the store, and reads the states of claims, with one statement: the overhead of a statement
// exceeds its work.
func (d *lite) states(claims []Waiting, states []State) error {
	if len(claims) == 0 {
		_, err := d.readMeta(d.read)
		return err
	}
	name, args, err := waiting(claims)
	if err != nil {
		return err
	}
	found := false
	err = d.read.rows(name, args, func(scan func(...any) error) (bool, error) {
		var (
			m  meta
			i  int
			id string
			s  State
		)
		err := scan(&m.version, &m.incarnation, &m.boot, &m.last, &m.seen, &i, &id, &s.Ends, &s.Holds, &s.Ahead)
		if err == nil && !found {
			found, err = true, d.checkMeta(m)
		}
		if err == nil && claims[i].ID == id {
			states[i] = s
		}
		return true, err
	})
	if err != nil || !found {
		return d.notOurs(d.read, err)
	}
	return nil
}

// waiting returns the statement that reads claims.
func waiting(claims []Waiting) (statement string, args []any, err error) {
	if len(claims) == 1 {
		return "one waits", []any{claims[0].Ticket, ""}, nil
	}
	list, err := tickets(claims)
	return "some wait", []any{list, ""}, err
}

// tickets returns the tickets of claims, as JSON.
func tickets(claims []Waiting) (string, error) {
	all := make([]int64, len(claims))
	for i, w := range claims {
		all[i] = w.Ticket
	}
	list, err := json.Marshal(all)
	return string(list), err
}

// kept reads, for each of these claims, when the first kept claim before it ends. If the claim right before it holds, all
// before it do.
func (d *lite) kept(claims []Waiting, states []State) error {
	list, err := tickets(claims)
	if err != nil {
		return err
	}
	return d.read.rows("kept", []any{list}, func(scan func(...any) error) (bool, error) {
		var (
			i    int
			ends int64
		)
		err := scan(&i, &ends)
		if err == nil && states[i].Ends != 0 {
			states[i].Kept = ends
		}
		return true, err
	})
}

// notOurs returns the error of a statement that reads the store's state beside its claims. If the statement found no state,
// readMeta decides whether the store is foreign or damaged.
func (d *lite) notOurs(s *session, err error) error {
	if _, wrong := d.readMeta(s); wrong != nil {
		return wrong
	}
	if err == nil {
		err = sql.ErrNoRows
	}
	return err
}

func readQueue(s *session, name string) (*driver.Queue, error) {
	q := &driver.Queue{}
	err := s.rows("queue", []any{name}, func(scan func(...any) error) (bool, error) {
		_, err := scanEntry(q, scan)
		return true, err
	})
	return q, err
}

// readState reads the state of the store and one queue, with one statement in place of two, since each costs about as much
// as the work between them.
func (d *lite) readState(s *session, name string) (meta, *driver.Queue, error) {
	var m meta
	q := &driver.Queue{}
	found := false
	err := s.rows("state", []any{name, ""}, func(scan func(...any) error) (bool, error) {
		found = true
		_, err := scanEntry(q, scan, &m.version, &m.incarnation, &m.boot, &m.last, &m.seen)
		return true, err
	})
	if err != nil || !found {
		return m, nil, d.notOurs(s, err)
	}
	if q.Entries[0].Ticket == 0 {
		q = &driver.Queue{} // the row has the store's state, and no claim
	}
	return m, q, d.checkMeta(m)
}

// scanEntry appends a row to a queue, and returns the row's name. The columns before the entry are scanned into first.
func scanEntry(q *driver.Queue, scan func(...any) error, first ...any) (name string, err error) {
	var e driver.Entry
	err = scan(append(first, &name, &e.Ticket, &e.ID, &e.Client, &e.Owner, &e.Record, &e.Weight, &q.Capacity,
		&e.Since, &e.Ends, &e.Delay, &e.Notified, &e.Left)...)
	q.Entries = append(q.Entries, e)
	return name, err
}
