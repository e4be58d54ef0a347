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

// A PollRequest names the claims and the queues that a poll reads.
type PollRequest struct {
	Fresh  bool      // it has new claims or names, or a watched or kept claim should have run out
	Came   bool      // a new waiter has come, or a watched or kept claim should have run out
	Woken  bool      // somebody has woken this client since the last poll: most likely there is news
	Kept   bool      // it asks for State.Kept too, even if nothing else has changed
	Claims []Waiting // that wait
	Names  []string  // of watched queues
}

// A Waiting is a claim that waits.
type Waiting struct {
	Name, ID string
	Ticket   int64
}

// A PollResult is the answer to a [PollRequest].
type PollResult struct {
	Now    int64
	States []State                  // of the claims, at the same index
	Queues map[string]*driver.Queue // by name; a name without a queue is missing
}

// A State is the state of a claim. The zero State says that the claim is gone.
type State struct {
	Ends  int64 // when its lease ends
	Holds bool  // it knows that it holds, and has not left
	Ahead int   // how many claims are before it; 0 if unknown
	Kept  int64 // of the first that waits: when the first claim before it ends that is kept; 0 if none is, or unasked
}

// A poller polls the database for all waiters of a driver. Its goroutine runs while there are any.
type poller struct {
	d       *Driver
	kick    chan struct{} // a claim began to wait: poll now
	ctx     context.Context
	cancel  context.CancelFunc
	waker   Waker       // the store, if it is one
	breaks  *breakWatch // for the claims that hold
	running sync.WaitGroup

	woken  atomic.Bool // somebody has woken this client since the last poll
	rhythm rhythm      // the goroutine's own

	mu      sync.Mutex // guards the fields below; nothing blocks under it
	waiters map[*waiter]bool
	fresh   bool // one of them was not polled yet
	on      bool // the goroutine runs
	hears   bool // another goroutine listens for wakeups
	off     bool // the driver is closed
}

// A waiter waits for a claim to hold, or, if it watches, for a queue to differ from a shape.
type waiter struct {
	Waiting
	client  string // of its claim; empty if it watches
	watches bool
	seen    string
	told    chan outcome // has room for one
}

// An outcome is sent to a waiter, once.
type outcome struct {
	place driver.Place
	err   error
}

func newPoller(d *Driver) *poller {
	p := &poller{d: d, kick: make(chan struct{}, 1), waiters: map[*waiter]bool{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.waker, _ = d.store.(Waker)
	p.breaks = newBreakWatch(p.waker, p.listen)
	return p
}

// wait waits until w has an outcome, and returns it.
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

// lookNow ends the pause before the next poll.
func (p *poller) lookNow() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// listen starts to listen for wakeups, as long as any claim waits or holds.
func (p *poller) listen(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listenLocked(client)
}

// listenLocked is listen under mu.
func (p *poller) listenLocked(client string) {
	if p.waker == nil || p.hears || p.off {
		return
	}
	p.hears = true
	p.breaks.listens(client)
	p.running.Go(func() {
		ctx, cancel := context.WithCancel(p.ctx)
		defer cancel()
		p.running.Go(func() { p.breaks.attend(ctx) })
		for p.hearing() {
			p.waker.Listen(p.ctx, client, p.busy, func() {
				p.woken.Store(true)
				p.lookNow()
			}, p.breaks.makeDue)
		}
	})
}

// hearing reports whether to go on listening. If not, the goroutine that listens ends.
func (p *poller) hearing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hears = !p.off && (p.on || p.breaks.wanted())
	return p.hears
}

// busy reports whether any claim waits, or has held for a while.
func (p *poller) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.on || p.breaks.wanted()
}

// tell notifies the waiters of this process whose claims hold now, before the next poll. It returns the claims without a
// waiter in this process.
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
			p.endWaitLocked(w, outcome{place: driver.Place{Ticket: e.Ticket, Holds: true}})
		} else {
			elsewhere = append(elsewhere, e)
		}
	}
	return elsewhere
}

// endWaitLocked ends a wait with an outcome, unless it has ended.
func (p *poller) endWaitLocked(w *waiter, o outcome) {
	if p.waiters[w] {
		delete(p.waiters, w)
		w.told <- o
	}
}

func (p *poller) endAll(o outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.waiters {
		p.endWaitLocked(w, o)
	}
}

func (p *poller) run() {
	p.rhythm.begin()
	p.woken.Store(false) // the first poll is fresh, and sees the changes of earlier wakeups
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		claims, watches, fresh := p.round()
		if len(claims)+len(watches) == 0 {
			return
		}
		g := requestOf(claims, watches)
		g.Woken = p.woken.Swap(false)
		p.rhythm.asks(g, fresh)
		s, err := p.d.store.Poll(p.ctx, g)
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

// round returns the waiters for claims and for changes, and whether one of them was not polled yet. Without waiters, the
// goroutine must end.
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
		p.listenLocked(claims[0].client)
	}
	return claims, watches, fresh
}

// again makes the next round poll, even if nothing has changed by then.
func (p *poller) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh = true
}

func requestOf(claims, watches []*waiter) *PollRequest {
	g := &PollRequest{}
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

// nearest returns how many claims are ahead of the waiting claim that is nearest to its turn.
func nearest(s *PollResult, watches []*waiter) int {
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

// see ends the waits with news. It returns when a watched or kept claim will run out.
func (p *poller) see(s *PollResult, claims, watches []*waiter) (due time.Time) {
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
			p.endWaitLocked(w, outcome{}) // its next Enter reports this
		case state.Holds:
			p.endWaitLocked(w, outcome{place: driver.Place{Ticket: w.Ticket, Holds: true}})
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
			p.endWaitLocked(w, outcome{})
			continue
		}
		earlier(sh.next)
	}
	return due
}
