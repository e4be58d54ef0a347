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

	// standEvery is how often an ear looks, whatever it hears: rings for those who wait reach it too, and a client that is rung for
	// without end must still hear within half a second.
	standEvery = 250 * time.Millisecond

	// standAgain is how long after a look that failed the next one is.
	standAgain = time.Second
)

// An ear has a client hear at once of a claim that somebody breaks. It knows which claims hold, and listens at the bell while one
// has held for listenAfter. A bell carries no message and anybody may ring it, so what it stirs is a look at which of the claims
// still stand. Those that do not are renewed at once, and the answer to that decides.
type ear struct {
	ringer   Ringer
	listen   func(client string) // begins to hear the rings for a client, unless that goes on
	endanger atomic.Pointer[func(ids ...string)]
	stirred  chan struct{} // has an element if a look is due

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

func newEar(r Ringer, listen func(string)) *ear {
	return &ear{ringer: r, listen: listen, stirred: make(chan struct{}, 1), held: map[string]*holding{}}
}

// holds notes that a claim holds, on a lease that begins now.
func (e *ear) holds(c *driver.Claim, ticket int64) {
	if e.endanger.Load() == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.held[c.ID]
	if h == nil {
		if e.limit.Reached(len(e.held)) {
			e.sweep()
		}
		h = &holding{Waiting: Waiting{Name: c.Name, ID: c.ID, Ticket: ticket}, client: c.Client, since: time.Now()}
		e.held[c.ID] = h
		e.time()
	}
	h.until = known.Until(c.TTL)
}

// parts notes that a claim does not hold any more, or is about to leave.
func (e *ear) parts(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.held, id)
}

// sweep forgets claims that are over. The mutex must be held.
func (e *ear) sweep() {
	for id, h := range e.held {
		if known.Over(h.until) {
			delete(e.held, id)
		}
	}
	e.limit.Swept(len(e.held))
}

// time has it looked at soon whether to listen. The mutex must be held.
func (e *ear) time() {
	if !e.timed {
		e.timed = true
		time.AfterFunc(listenAfter, e.begin)
	}
}

// begin begins to listen if a claim has held for long enough.
func (e *ear) begin() {
	e.mu.Lock()
	e.timed = false
	client, wanted := "", false
	for _, h := range e.held {
		if time.Since(h.since) >= listenAfter {
			client, wanted = h.client, true
		} else {
			e.time()
		}
	}
	e.mu.Unlock()
	if wanted {
		e.listen(client)
	}
}

// wanted reports whether a claim has held for long enough.
func (e *ear) wanted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sweep()
	for _, h := range e.held {
		if time.Since(h.since) >= listenAfter {
			return true
		}
	}
	return false
}

// stir has it looked soon which claims still stand.
func (e *ear) stir() {
	select {
	case e.stirred <- struct{}{}:
	default: // it is due
	}
}

// attend looks when it is stirred, until ctx ends.
func (e *ear) attend(ctx context.Context) {
	for {
		select {
		case <-e.stirred:
		case <-ctx.Done():
			return
		}
		pause := standEvery
		err := e.look(ctx)
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

// look has those claims renewed that do not stand any more. Any error but that the database is out of reach is left to the next
// renewals, which are told the same.
func (e *ear) look(ctx context.Context) error {
	e.mu.Lock()
	claims := make([]Waiting, 0, len(e.held))
	for _, h := range e.held {
		claims = append(claims, h.Waiting)
	}
	e.mu.Unlock()
	if len(claims) == 0 {
		return nil
	}
	gone, err := e.ringer.Gone(ctx, claims)
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
	if d.poll.ringer != nil && d.Traits().HearsBreak {
		d.poll.ear.endanger.Store(&endangered)
	}
}

// Holds notes that a claim of this driver holds, because of a change that the store made by itself. It does not ring.
func (d *Driver) Holds(c *driver.Claim, ticket int64) { d.poll.ear.holds(c, ticket) }

// Parts notes that a claim of this driver is about to leave, by a change that the store makes by itself.
func (d *Driver) Parts(id string) { d.poll.ear.parts(id) }
