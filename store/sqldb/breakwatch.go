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
	// listenAfter is how long a claim must hold until its client listens for a break. Who locks and unlocks sooner pays nothing.
	listenAfter = 100 * time.Millisecond

	// standEvery is the pause between two checks whatever is heard: wakeups for waiters arrive here too, and a client
	// that is woken without end must still learn of a break within half a second.
	standEvery = 250 * time.Millisecond

	// standAgain is the pause after a check that failed.
	standAgain = time.Second
)

// A breakWatch lets a client learn at once that somebody broke its claim. It knows the claims that hold, and listens
// while one has held for listenAfter. A wakeup carries no message and anybody may send one, so it only starts a check
// which claims still stand. Claims that are gone are renewed at once, and the renewal's answer decides.
type breakWatch struct {
	waker    Waker
	listen   func(client string) // starts to listen for a client, unless that goes on
	endanger atomic.Pointer[func(ids ...string)]
	stirred  chan struct{} // has an element if a check is due

	mu    sync.Mutex          // guards what follows
	held  map[string]*holding // by id
	limit known.Limit
	timed bool // it is looked at soon whether to listen
}

// A holding is a claim that holds.
type holding struct {
	Waiting
	client string
	since  time.Time
	until  time.Duration // when it is surely over, unless it is renewed: its client may have left it to another process
}

func newBreakWatch(r Waker, listen func(string)) *breakWatch {
	return &breakWatch{waker: r, listen: listen, stirred: make(chan struct{}, 1), held: map[string]*holding{}}
}

// holds notes that a claim holds, on a lease that begins now.
func (e *breakWatch) holds(c *driver.Claim, ticket int64) {
	if e.endanger.Load() == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.held[c.ID]
	if h == nil {
		if e.limit.Reached(len(e.held)) {
			e.sweepLocked()
		}
		h = &holding{Waiting: Waiting{Name: c.Name, ID: c.ID, Ticket: ticket}, client: c.Client, since: time.Now()}
		e.held[c.ID] = h
		e.scheduleLocked()
	}
	h.until = known.Until(c.TTL)
}

// parts notes that a claim does not hold any more, or is about to leave.
func (e *breakWatch) parts(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.held, id)
}

// sweepLocked forgets claims that are over.
func (e *breakWatch) sweepLocked() {
	for id, h := range e.held {
		if known.Over(h.until) {
			delete(e.held, id)
		}
	}
	e.limit.Swept(len(e.held))
}

// scheduleLocked runs begin after listenAfter.
func (e *breakWatch) scheduleLocked() {
	if !e.timed {
		e.timed = true
		time.AfterFunc(listenAfter, e.begin)
	}
}

// begin begins to listen if a claim has held for long enough.
func (e *breakWatch) begin() {
	e.mu.Lock()
	e.timed = false
	client, wanted := "", false
	for _, h := range e.held {
		if time.Since(h.since) >= listenAfter {
			client, wanted = h.client, true
		} else {
			e.scheduleLocked()
		}
	}
	e.mu.Unlock()
	if wanted {
		e.listen(client)
	}
}

// wanted reports whether a claim has held for long enough.
func (e *breakWatch) wanted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sweepLocked()
	for _, h := range e.held {
		if time.Since(h.since) >= listenAfter {
			return true
		}
	}
	return false
}

// stir makes a check due.
func (e *breakWatch) stir() {
	select {
	case e.stirred <- struct{}{}:
	default: // it is due
	}
}

// attend checks the claims whenever that is due, until ctx ends.
func (e *breakWatch) attend(ctx context.Context) {
	for {
		select {
		case <-e.stirred:
		case <-ctx.Done():
			return
		}
		pause := standEvery
		err := e.renewGone(ctx)
		if ctx.Err() != nil {
			e.stir() // for the next who attends
			return
		}
		if driver.IsUnreachable(err) {
			e.stir()
			pause = standAgain
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// renewGone reports the claims that are gone, so that they are renewed. It returns an error if the store could not be
// asked; any other error is met by the next renewals too.
func (e *breakWatch) renewGone(ctx context.Context) error {
	e.mu.Lock()
	claims := make([]Waiting, 0, len(e.held))
	for _, h := range e.held {
		claims = append(claims, h.Waiting)
	}
	e.mu.Unlock()
	if len(claims) == 0 {
		return nil
	}
	gone, err := e.waker.Gone(ctx, claims)
	if err != nil {
		return err
	}
	e.mu.Lock()
	var ids []string
	for _, id := range gone {
		if e.held[id] != nil { // or it has left meanwhile
			delete(e.held, id)
			ids = append(ids, id)
		}
	}
	e.mu.Unlock()
	if len(ids) > 0 {
		(*e.endanger.Load())(ids...)
	}
	return nil
}

// Alert is [driver.Alerter]. Without [driver.Traits.HearsBreak] nobody listens.
func (d *Driver) Alert(endangered func(ids ...string)) {
	if d.poll.waker != nil && d.Traits().HearsBreak {
		d.poll.breaks.endanger.Store(&endangered)
	}
}

// Holds notes that a claim of this driver holds, because of a change that the store made by itself. It wakes nobody.
func (d *Driver) Holds(c *driver.Claim, ticket int64) { d.poll.breaks.holds(c, ticket) }

// Parts notes that a claim of this driver is about to leave, by a change that the store makes by itself.
func (d *Driver) Parts(id string) { d.poll.breaks.parts(id) }
