package sqldb

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/known"
)

const (
	// listenAfter is how long a claim must hold until its client listens for a break. A shorter lock costs nothing more.
	listenAfter = 100 * time.Millisecond

	// standEvery is the longest time between two checks while wakeups come: wakeups for waiters arrive here too, and a
	// client that is woken without end must still learn of a break within half a second.
	standEvery = 250 * time.Millisecond

	// standAgain is the pause after a check that failed.
	standAgain = time.Second

	// unheardEvery is the time between two checks while a client holds a claim without a listener.
	unheardEvery = 500 * time.Millisecond
)

// A breakWatch lets a client learn of a break at once. It knows the claims that hold, and listens while one has held for
// listenAfter. A wakeup carries no message and anybody may send one, so it only starts a check of which claims still exist.
// Claims that are gone are renewed at once, and the renewal's answer decides.
//
// A driver listens for one client. The driver of a lock service has claims of many clients, and checks those of the other
// clients every unheardEvery.
type breakWatch struct {
	waker    Waker
	listen   func(client string) // starts to listen for a client, unless it already does
	endanger atomic.Pointer[func(ids ...string)]
	due      chan struct{} // has an element if a check is due

	mu    sync.Mutex          // guards the fields below
	heard string              // the client for which it listens
	held  map[string]*holding // by id
	limit known.Limit
	timed bool // a check whether to listen is scheduled
}

// A holding is a claim that holds.
type holding struct {
	Waiting
	client string
	since  time.Time
	until  time.Duration // when it is surely over without a renewal: its client may have left it to another process
}

func newBreakWatch(r Waker, listen func(string)) *breakWatch {
	return &breakWatch{waker: r, listen: listen, due: make(chan struct{}, 1), held: map[string]*holding{}}
}

// holds notes that a claim holds, on a lease that begins now. A claim without a known ticket is not watched: it is found by its ticket.
func (w *breakWatch) holds(c *driver.Claim, ticket int64) {
	if w.endanger.Load() == nil || ticket == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.held[c.ID]
	if h == nil {
		if w.limit.Reached(len(w.held)) {
			w.sweepLocked()
		}
		h = &holding{Waiting: Waiting{Name: c.Name, ID: c.ID, Ticket: ticket}, client: c.Client, since: time.Now()}
		w.held[c.ID] = h
		w.scheduleLocked()
	}
	h.until = known.Until(c.TTL)
}

// parts notes that a claim no longer holds, or is about to leave.
func (w *breakWatch) parts(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, id)
}

// sweepLocked forgets claims that are over.
func (w *breakWatch) sweepLocked() {
	for id, h := range w.held {
		if known.Over(h.until) {
			delete(w.held, id)
		}
	}
	w.limit.Swept(len(w.held))
}

// scheduleLocked schedules begin.
func (w *breakWatch) scheduleLocked() {
	if !w.timed {
		w.timed = true
		time.AfterFunc(listenAfter, w.begin)
	}
}

// begin begins to listen if a claim has held for listenAfter.
func (w *breakWatch) begin() {
	w.mu.Lock()
	w.timed = false
	client, wanted := "", false
	for _, h := range w.held {
		if time.Since(h.since) >= listenAfter {
			client, wanted = h.client, true
		} else {
			w.scheduleLocked()
		}
	}
	w.mu.Unlock()
	if wanted {
		w.listen(client)
	}
}

// listens notes the client for which the driver listens.
func (w *breakWatch) listens(client string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = client
}

// unheard reports whether a claim of another client has held for listenAfter.
func (w *breakWatch) unheard() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.held {
		if h.client != w.heard && time.Since(h.since) >= listenAfter {
			return true
		}
	}
	return false
}

// wanted reports whether a claim has held for listenAfter.
func (w *breakWatch) wanted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sweepLocked()
	for _, h := range w.held {
		if time.Since(h.since) >= listenAfter {
			return true
		}
	}
	return false
}

// makeDue makes a check due.
func (w *breakWatch) makeDue() {
	select {
	case w.due <- struct{}{}:
	default: // it is due already
	}
}

// attend checks the claims when a check is due, until ctx ends.
func (w *breakWatch) attend(ctx context.Context) {
	tick := time.NewTicker(unheardEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.due:
		case <-tick.C:
			if !w.unheard() {
				continue
			}
		case <-ctx.Done():
			return
		}
		pause := standEvery
		err := w.renewGone(ctx)
		if ctx.Err() != nil {
			w.makeDue() // for the next call of attend
			return
		}
		if driver.IsUnreachable(err) {
			w.makeDue()
			pause = standAgain
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// renewGone alerts the client of claims that are gone, so that it renews them. The error says that the store could not be
// asked; other errors are left to the next renewals.
func (w *breakWatch) renewGone(ctx context.Context) error {
	w.mu.Lock()
	claims := make([]Waiting, 0, len(w.held))
	for _, h := range w.held {
		claims = append(claims, h.Waiting)
	}
	w.mu.Unlock()
	if len(claims) == 0 {
		return nil
	}
	gone, err := w.waker.Gone(ctx, claims)
	if err != nil {
		return err
	}
	w.mu.Lock()
	var ids []string
	for _, id := range gone {
		if w.held[id] != nil { // otherwise it has left meanwhile
			delete(w.held, id)
			ids = append(ids, id)
		}
	}
	w.mu.Unlock()
	if len(ids) > 0 {
		(*w.endanger.Load())(ids...)
	}
	return nil
}

// Alert is [driver.Alerter]. Without [driver.Traits.HearsBreak] the driver never listens.
func (d *Driver) Alert(endangered func(ids ...string)) {
	if d.poll.waker != nil && d.Traits().HearsBreak {
		d.poll.breaks.endanger.Store(&endangered)
	}
}

// Holds notes that a claim of this driver holds, by a change of the store itself. It wakes no client.
func (d *Driver) Holds(c *driver.Claim, ticket int64) { d.poll.breaks.holds(c, ticket) }

// Parts notes that a claim of this driver is about to leave, by a change of the store itself.
func (d *Driver) Parts(id string) { d.poll.breaks.parts(id) }
