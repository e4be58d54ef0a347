package sqldb

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// A poller looks at the database for all who wait on one driver. Its goroutine runs while anyone does.
type poller struct {
	d       *Driver
	kick    chan struct{} // somebody began to wait: look now
	running sync.WaitGroup

	mu      sync.Mutex // guards what follows; nothing blocks under it
	waiters map[*waiter]bool
	fresh   bool // one of them has not been looked at
	on      bool // the goroutine runs
	off     bool // the driver is closed
}

// A waiter waits for a claim to hold, or, with a name, for a queue to differ from a shape.
type waiter struct {
	id     string
	ticket int64

	name, seen string

	told chan outcome // has room for one
}

// An outcome is what a waiter is told, once.
type outcome struct {
	place driver.Place
	err   error
}

const movedEvery = 100 * time.Millisecond

// interval is how long to sleep between two looks, by how long ago there was news: locks that go from hand to hand do so
// every millisecond or two, and one that is held for long must not cost much. Most of the cost is the timer itself. A
// waiter is to wake within ten milliseconds, and timers are late.
func interval(quiet time.Duration) time.Duration {
	switch {
	case quiet < 50*time.Millisecond:
		return time.Millisecond
	case quiet < time.Second:
		return 2 * time.Millisecond
	default:
		return 7 * time.Millisecond
	}
}

func newPoller(d *Driver) *poller {
	return &poller{d: d, kick: make(chan struct{}, 1), waiters: map[*waiter]bool{}}
}

// wait returns what w is told.
func (p *poller) wait(ctx context.Context, w *waiter) (driver.Place, error) {
	p.mu.Lock()
	if p.off {
		p.mu.Unlock()
		return driver.Place{}, driver.ErrClosed
	}
	p.waiters[w], p.fresh = true, true
	if !p.on {
		p.on = true
		p.running.Go(p.run)
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.waiters, w)
		p.mu.Unlock()
	}()
	select {
	case p.kick <- struct{}{}:
	default:
	}
	select {
	case o := <-w.told:
		return o.place, o.err
	case <-ctx.Done():
		return driver.Place{}, context.Cause(ctx)
	case <-p.d.closed:
		return driver.Place{}, driver.ErrClosed
	}
}

// stop ends the goroutine. The driver must have been closed.
func (p *poller) stop() {
	p.mu.Lock()
	p.off = true
	p.mu.Unlock()
	p.running.Wait()
}

// tell tells the waiters of this process which of their claims hold now, ahead of the next poll.
func (p *poller) tell(woken []driver.Entry) {
	if len(woken) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.waiters {
		for _, e := range woken {
			if w.id == e.ID && w.ticket == e.Ticket {
				p.end(w, outcome{place: driver.Place{Ticket: e.Ticket, Holds: true}})
			}
		}
	}
}

// end tells a waiter, once. The mutex must be held.
func (p *poller) end(w *waiter, o outcome) {
	if p.waiters[w] {
		delete(p.waiters, w)
		w.told <- o
	}
}

func (p *poller) endAll(o outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.waiters {
		p.end(w, o)
	}
}

func (p *poller) all() []*waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.waiters))
}

func (p *poller) run() {
	var (
		version int64 // that the last look saw
		due     int64 // when a watched claim runs out; 0 means never
		news    = time.Now()
		checked time.Time
	)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		n, fresh := p.round()
		if n == 0 {
			return
		}
		if time.Since(checked) > movedEvery {
			checked = time.Now()
			if p.d.moved() != nil {
				p.endAll(outcome{}) // their next call is told why
			}
		}
		seen, err := p.d.version()
		if err == nil && (fresh || seen != version || due != 0 && p.d.now() >= due) {
			if due, err = p.look(); err == nil {
				version, news = seen, time.Now()
			}
		}
		if driver.IsUnreachable(err) {
			p.again()
		} else if err != nil {
			p.endAll(outcome{err: err})
		}
		timer.Reset(interval(time.Since(news)))
		select {
		case <-timer.C:
		case <-p.kick:
		case <-p.d.closed:
		}
	}
}

// round returns how many wait, and whether one of them has not been looked at. If nobody waits, the goroutine is to end.
func (p *poller) round() (n int, fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiters) == 0 || p.off {
		p.on = false
		return 0, false
	}
	fresh, p.fresh = p.fresh, false
	return len(p.waiters), fresh
}

// again makes the next round look, whatever has changed by then.
func (p *poller) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh = true
}

// version returns a number that differs when another connection has written.
func (d *Driver) version() (version int64, err error) {
	err = d.reading(func() error { return d.read.row("version", nil, &version) })
	return version, err
}

// reading runs f once on the read session. A locked database is unreachable.
func (d *Driver) reading(f func() error) error {
	if err := d.take(context.Background(), d.read); err != nil {
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

// look tells each waiter for whom there is news. It returns when a watched claim will run out.
func (p *poller) look() (due int64, err error) {
	ws := p.all()
	rows, shapes := map[int64]row{}, map[string]shape{}
	err = p.d.reading(func() error {
		if _, err := p.d.readMeta(p.d.read); err != nil {
			return err
		}
		for _, w := range ws {
			if w.name != "" {
				if shapes[w.name], err = p.d.readShape(w.name); err != nil {
					return err
				}
			}
		}
		rows, err = p.d.rows(ws)
		return err
	})
	if err != nil {
		return 0, err
	}
	now := p.d.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range ws {
		r, s := rows[w.ticket], shapes[w.name]
		switch {
		case w.name != "" && s.text != w.seen:
			p.end(w, outcome{})
		case w.name != "":
			if s.next != 0 && (due == 0 || s.next < due) {
				due = s.next
			}
		case r.id != w.id || r.ends <= now:
			p.end(w, outcome{}) // its next Enter is told
		case r.holds:
			p.end(w, outcome{place: driver.Place{Ticket: w.ticket, Holds: true}})
		}
	}
	return due, nil
}

// A row is what a poll reads of a claim.
type row struct {
	id    string
	ends  int64
	holds bool
}

// rows reads the claims that wait, by ticket.
func (d *Driver) rows(ws []*waiter) (map[int64]row, error) {
	var tickets []int64
	for _, w := range ws {
		if w.name == "" {
			tickets = append(tickets, w.ticket)
		}
	}
	rows := make(map[int64]row, len(tickets))
	if len(tickets) == 0 {
		return rows, nil
	}
	list, err := json.Marshal(tickets)
	if err != nil {
		return nil, err
	}
	return rows, d.read.rows("waiting", string(list), func(scan func(...any) error) (bool, error) {
		var (
			ticket int64
			r      row
		)
		err := scan(&ticket, &r.id, &r.ends, &r.holds)
		rows[ticket] = r
		return true, err
	})
}
