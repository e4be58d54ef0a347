package sqldb

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Glance is what a poll asks for.
type Glance struct {
	Fresh  bool      // there is something new in it, or time may have changed what it is about
	Came   bool      // somebody waits who did not before, or what was to run out is over
	Rung   bool      // somebody has rung since the last look: there is news, most likely
	Kept   bool      // it asks for State.Kept too, whether anything else has changed or not
	Claims []Waiting // that wait to hold
	Names  []string  // of queues that are watched
}

// A Waiting is a claim that waits.
type Waiting struct {
	Name, ID string
	Ticket   int64
}

// A Sight is the answer to a [Glance].
type Sight struct {
	Now    int64
	States []State                  // of the claims, at the same index
	Queues map[string]*driver.Queue // those of the names that have one
}

// A State is how a claim stands. The zero State says that it is not there.
type State struct {
	Ends  int64 // when its lease ends
	Holds bool  // it knows that it holds, and has not left
	Ahead int   // how many stand before it; 0 if the store does not tell
	Kept  int64 // of the first that waits: when the first claim before it ends that is kept; 0 if none is, or unasked
}

// A poller looks at the database for all who wait on one driver. Its goroutine runs while anyone does.
type poller struct {
	d       *Driver
	kick    chan struct{} // somebody began to wait: look now
	ctx     context.Context
	cancel  context.CancelFunc
	ringer  Ringer // the store, if it is one
	ear     *ear   // of who holds
	running sync.WaitGroup

	rung   atomic.Bool // somebody has rung since the last look
	rhythm rhythm      // the goroutine's own

	mu      sync.Mutex // guards what follows; nothing blocks under it
	waiters map[*waiter]bool
	fresh   bool // one of them has not been looked at
	on      bool // the goroutine runs
	hears   bool // another one hears the store's rings
	off     bool // the driver is closed
}

// A waiter waits for a claim to hold, or, if it watches, for the queue of a name to differ from a shape.
type waiter struct {
	Waiting
	client  string // whose claim it is; empty if it watches
	watches bool
	seen    string
	told    chan outcome // has room for one
}

// An outcome is what a waiter is told, once.
type outcome struct {
	place driver.Place
	err   error
}

func newPoller(d *Driver) *poller {
	p := &poller{d: d, kick: make(chan struct{}, 1), waiters: map[*waiter]bool{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.ringer, _ = d.store.(Ringer)
	p.ear = newEar(p.ringer, p.listen)
	return p
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
	p.lookNow()
	select {
	case o := <-w.told:
		return o.place, o.err
	case <-ctx.Done():
		return driver.Place{}, driver.Ended(ctx, true)
	case <-p.d.closed:
		return driver.Place{}, driver.ErrClosed
	}
}

// stop ends the goroutine. The driver must have been closed.
func (p *poller) stop() {
	p.mu.Lock()
	p.off = true
	p.mu.Unlock()
	p.cancel()
	p.running.Wait()
}

// lookNow ends the pause before the next look.
func (p *poller) lookNow() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// listen has the store's rings heard, as long as somebody waits or holds.
func (p *poller) listen(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hear(client)
}

// hear is listen. The mutex must be held.
func (p *poller) hear(client string) {
	if p.ringer == nil || p.hears || p.off {
		return
	}
	p.hears = true
	p.running.Go(func() {
		ctx, cancel := context.WithCancel(p.ctx)
		defer cancel()
		p.running.Go(func() { p.ear.attend(ctx) })
		for p.hearing() {
			p.ringer.Hear(p.ctx, client, p.busy, func() {
				p.rung.Store(true)
				p.lookNow()
			}, p.ear.stir)
		}
	})
}

// hearing reports whether rings are to be heard. If not, the goroutine that hears them is to end.
func (p *poller) hearing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hears = !p.off && (p.on || p.ear.wanted())
	return p.hears
}

// busy reports whether somebody waits, or has held for a while.
func (p *poller) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.on || p.ear.wanted()
}

// tell tells the waiters of this process which of their claims hold now, ahead of the next poll. It returns those for
// which nobody waits here.
func (p *poller) tell(woken []driver.Entry) (elsewhere []driver.Entry) {
	if len(woken) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := make(map[string]*waiter, len(p.waiters))
	for w := range p.waiters {
		if !w.watches {
			waiting[w.ID] = w
		}
	}
	for _, e := range woken {
		if w := waiting[e.ID]; w != nil && w.Ticket == e.Ticket {
			p.end(w, outcome{place: driver.Place{Ticket: e.Ticket, Holds: true}})
		} else {
			elsewhere = append(elsewhere, e)
		}
	}
	return elsewhere
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

func (p *poller) run() {
	p.rhythm.begin()
	p.rung.Store(false) // what rang before is seen by the first look, which is fresh
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		claims, watches, fresh := p.round()
		if len(claims)+len(watches) == 0 {
			return
		}
		g := glance(claims, watches)
		g.Rung = p.rung.Swap(false)
		p.rhythm.asks(g, fresh)
		s, err := p.d.store.Look(p.ctx, g)
		switch {
		case p.ctx.Err() != nil: // the next round ends it
		case driver.IsUnreachable(err):
			p.again()
		case err != nil:
			p.endAll(outcome{err: err})
		case s != nil:
			p.rhythm.ahead, p.rhythm.due = nearest(s, watches), p.see(s, claims, watches)
		}
		timer.Reset(p.rhythm.pause(p.d.store, g, s != nil, err))
		select {
		case <-timer.C:
		case <-p.kick:
		case <-p.d.closed:
		}
	}
}

// round returns who waits, for a claim and for a change, and whether one of them has not been looked at. If nobody
// waits, the goroutine is to end.
func (p *poller) round() (claims, watches []*waiter, fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiters) == 0 || p.off {
		p.on = false
		return nil, nil, false
	}
	for w := range p.waiters {
		if w.watches {
			watches = append(watches, w)
		} else {
			claims = append(claims, w)
		}
	}
	fresh, p.fresh = p.fresh, false
	if len(claims) > 0 {
		p.hear(claims[0].client)
	}
	return claims, watches, fresh
}

// again makes the next round look, whatever has changed by then.
func (p *poller) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh = true
}

func glance(claims, watches []*waiter) *Glance {
	g := &Glance{}
	for _, w := range claims {
		g.Claims = append(g.Claims, w.Waiting)
	}
	for _, w := range watches {
		if !slices.Contains(g.Names, w.Name) {
			g.Names = append(g.Names, w.Name)
		}
	}
	return g
}

// nearest returns how many stand before the claim that is nearest to hold, of those that are to wait on.
func nearest(s *Sight, watches []*waiter) int {
	if len(watches) > 0 {
		return 0
	}
	least := math.MaxInt32
	for _, state := range s.States {
		if state.Ends > s.Now && !state.Holds {
			least = min(least, state.Ahead)
		}
	}
	return least
}

// see tells each waiter for whom there is news. It returns when a watched or kept claim will run out.
func (p *poller) see(s *Sight, claims, watches []*waiter) (due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	earlier := func(ends int64) {
		if at := now.Add(time.Duration(ends-s.Now) * time.Microsecond); ends != 0 && (due.IsZero() || at.Before(due)) {
			due = at
		}
	}
	for i, w := range claims {
		switch state := s.States[i]; {
		case state.Ends <= s.Now, state.Kept != 0 && state.Kept <= s.Now:
			p.end(w, outcome{}) // its next Enter is told
		case state.Holds:
			p.end(w, outcome{place: driver.Place{Ticket: w.Ticket, Holds: true}})
		default:
			earlier(state.Kept)
		}
	}
	shapes := map[string]shape{}
	for name, q := range s.Queues {
		shapes[name] = shapeOf(q, s.Now)
	}
	for _, w := range watches {
		sh := shapes[w.Name]
		if sh.text != w.seen {
			p.end(w, outcome{})
			continue
		}
		earlier(sh.next)
	}
	return due
}
