// Package inbox delivers the messages of a store to waiting claims. It is for drivers whose store sends a client the ticket
// of a claim that holds, or 0 for a claim that must enter again, since its knowledge of the claims ahead is out of date.
package inbox

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	askAgain  = 100 * time.Millisecond // Await's pause while there is no subscription
	soon      = 500 * time.Millisecond // and its least wait for the first attempt, unless that has failed
	idleAfter = 10 * time.Second
	unheard   = 2 * time.Minute // how long a claim stays expected without a call of its client, which may have died
	retryMin  = 10 * time.Millisecond
	retryMax  = time.Second
	retryIdle = 5 * time.Second // the longest pause while nobody waits
)

// A Source delivers the store's messages.
type Source interface {
	// Context ends when the driver is closed.
	Context() context.Context

	// Go runs f in a goroutine that the driver's Close waits for. It returns false if the driver is closed.
	Go(f func()) bool

	// Subscribe listens to a channel until the subscription is lost or ctx ends. It calls stands when the store confirms the
	// subscription or ends it, and told with each message.
	Subscribe(ctx context.Context, channel string, stands func(bool), told func(text string)) error

	// Doubt reports the loss of a subscription that stood.
	Doubt()
}

// A Subscriber needs subscriptions beyond those of the waiting claims. Its methods return soon, and do not call the Set.
type Subscriber interface {
	// Needs reports whether a subscription on which nobody waits goes on.
	Needs(channel string) bool

	// Subscribed reports that a subscription stands, for the first time or again.
	Subscribed(channel string)

	// Received takes a message for no waiting claim.
	Received(channel, text string)
}

// A Set has the inboxes of a driver, one per channel that its claims wait on. A claim is in its inbox before its request is
// sent, and only while the subscription stands, so no message is sent before somebody listens. Its methods may run at the
// same time.
type Set struct {
	Idle       time.Duration // how long a subscription lasts on which nobody waits
	Subscriber Subscriber    // set before the first call; nil for none

	source Source
	parse  func(text string) (claim string, ticket int64, ok bool)

	standing atomic.Int64 // the subscriptions that stand; changed under mu

	mu        sync.Mutex // guards the fields below, also in the inboxes
	byChannel map[string]*inbox
}

// An inbox is one subscription with its waiting claims. Claims are expected only while it stands: when it is lost, their
// waits return, and no claim is expected.
//
//	put off ──its time comes──► first attempt ──confirmed──► standing
//	                                  │                       │   ▲
//	                                failed                  lost  │ confirmed
//	                                  └──────► down ◄─────────┘   │
//	                                            └── tried again ──┘
//
// In each state an inbox ends when nobody has waited for a while.
type inbox struct {
	channel string
	stop    context.CancelFunc
	idle    *time.Timer
	trying  time.Time     // when the first attempt begins or began; zero after it
	sooner  chan struct{} // has an element if trying has moved closer
	stands  bool          // the store has confirmed the subscription
	wanted  bool          // a claim has waited for it since the last attempt
	turned  chan struct{} // closed when stands changes
	waiting map[string]*waiter
}

// A waiter receives one claim's ticket.
type waiter struct {
	ticket chan int64
	lost   chan struct{} // closed when the subscription is lost
	awaits int           // calls of Await
	came   time.Time     // the client's last Enter, or the end of its last Await
}

// New returns the inboxes for the messages of a source. parse splits a message; an unknown message is ignored.
func New(source Source, parse func(text string) (claim string, ticket int64, ok bool)) *Set {
	return &Set{Idle: idleAfter, source: source, parse: parse, byChannel: map[string]*inbox{}}
}

// Expect prepares for a claim's message, and reports whether a message can come: none comes before the subscription stands.
// An expected claim keeps the subscription up until Forget, the loss of the subscription, or a long silence of its client.
func (s *Set) Expect(channel, claim string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.byChannel[channel]
	if in == nil || !in.stands {
		return false
	}
	if in.waiting[claim] == nil {
		in.waiting[claim] = &waiter{ticket: make(chan int64, 1), lost: in.turned}
	}
	in.waiting[claim].came = time.Now()
	return true
}

// Stands reports whether a subscription stands. Otherwise no claim on it is expected. Drivers ask before and after each
// request, usually with nobody waiting.
func (s *Set) Stands(channel string) bool {
	if s.standing.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.byChannel[channel]
	return in != nil && in.stands
}

// Forget is the reverse of Expect.
func (s *Set) Forget(channel, claim string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.byChannel[channel]
	if in == nil || len(in.waiting) == 0 {
		return
	}
	delete(in.waiting, claim)
	if len(in.waiting) == 0 {
		in.idle.Reset(s.Idle)
	}
}

// find returns the waiter for a call of Await, which left ends; nil for a claim that is not expected.
func (s *Set) find(channel, claim string) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.byChannel[channel]
	if in == nil || in.waiting[claim] == nil {
		return nil
	}
	w := in.waiting[claim]
	w.awaits++
	return w
}

func (s *Set) left(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.awaits--
	w.came = time.Now()
}

// Await implements [driver.Driver]. It waits until an expected claim gets a message with its ticket. It returns early for an
// unexpected claim, once the subscription stands, and for a claim whose subscription is lost: another Enter shows what
// happened meanwhile. Ticket 0 in a message means the same. A claim with a ticket holds only by that ticket.
func (s *Set) Await(ctx context.Context, channel, claim string, ticket int64) (driver.Place, error) {
	closed := s.source.Context()
	if closed.Err() != nil {
		return driver.Place{}, driver.ErrClosed
	}
	w := s.find(channel, claim)
	if w == nil {
		return driver.Place{}, s.Open(ctx, channel)
	}
	defer s.left(w)
	select {
	case told := <-w.ticket:
		s.Forget(channel, claim)
		if told == 0 || ticket != 0 && ticket != told {
			return driver.Place{}, nil
		}
		return driver.Place{Ticket: told, Holds: true}, nil
	case <-w.lost:
		return driver.Place{}, nil
	case <-ctx.Done():
		return driver.Place{}, driver.Ended(ctx, true)
	case <-closed.Done():
		return driver.Place{}, driver.ErrClosed
	}
}

// Open begins a subscription, unless it has begun or was put off, and waits a short time for it to stand.
func (s *Set) Open(ctx context.Context, channel string) error {
	closed := s.source.Context()
	stands, turned, patience, err := s.begin(channel)
	if err != nil || stands {
		return err
	}
	again := time.NewTimer(patience)
	defer again.Stop()
	select {
	case <-turned:
	case <-again.C:
	case <-ctx.Done():
		return driver.Ended(ctx, true)
	case <-closed.Done():
		return driver.ErrClosed
	}
	return nil
}

// begin returns whether a subscription stands, a channel that is closed when that changes or when the first attempt has
// failed, and how long to wait for it. Many clients that come at once all subscribe, and a busy store must not get repeated
// requests from each meanwhile. 1,000 clients that come for one name in Redis send 2,000 requests this way until all are in
// the queue and listen; with a request every 100 ms each they sent 3,300 to 3,800 (on a busy machine with two cores).
func (s *Set) begin(channel string) (stands bool, turned <-chan struct{}, patience time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in, err := s.subscribedLocked(channel, 0)
	if err != nil {
		return false, nil, 0, err
	}
	in.wanted, patience = true, askAgain
	if !in.trying.IsZero() {
		patience = max(patience, soon-time.Since(in.trying))
	}
	return in.stands, in.turned, patience, nil
}

// Within begins a subscription within a time, unless it has begun; 0 means now. The time is for a claim with so many claims
// ahead that its turn cannot come sooner: if many claims come at once, the store first serves claims that are not in the
// queue yet.
func (s *Set) Within(channel string, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in, err := s.subscribedLocked(channel, delay)
	if err != nil || in.trying.IsZero() {
		return // the driver is closed, or the first attempt is over
	}
	if begins := time.Now().Add(delay); begins.Before(in.trying) {
		in.trying = begins
		select {
		case in.sooner <- struct{}{}:
		default: // an earlier move is still pending
		}
	}
}

// subscribedLocked returns the inbox of a channel; a new one subscribes after a delay. The error is [driver.ErrClosed].
func (s *Set) subscribedLocked(channel string, delay time.Duration) (*inbox, error) {
	if in := s.byChannel[channel]; in != nil {
		return in, nil
	}
	run, stop := context.WithCancel(s.source.Context())
	in := &inbox{
		channel: channel, stop: stop, trying: time.Now().Add(delay), sooner: make(chan struct{}, 1), turned: make(chan struct{}),
		waiting: map[string]*waiter{},
	}
	in.idle = time.AfterFunc(delay+s.Idle, func() { s.retire(in) })
	if !s.source.Go(func() { s.listen(run, in) }) {
		in.idle.Stop()
		stop()
		return nil, driver.ErrClosed
	}
	s.byChannel[channel] = in
	return in, nil
}

// retire ends a subscription on which nobody waits.
func (s *Set) retire(in *inbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(in.waiting, func(_ string, w *waiter) bool { return w.awaits == 0 && time.Since(w.came) >= unheard })
	if len(in.waiting) > 0 {
		in.idle.Reset(s.Idle)
		return
	}
	if s.Subscriber != nil && s.Subscriber.Needs(in.channel) {
		in.idle.Reset(s.Idle)
		return
	}
	delete(s.byChannel, in.channel) // the next claim begins a new subscription, and does not wait for the end of this one
	in.stop()
}

// listen keeps a subscription up until ctx ends.
func (s *Set) listen(ctx context.Context, in *inbox) {
	defer in.idle.Stop()
	if !s.putOff(ctx, in) {
		return
	}
	delay := retryMin
	for {
		// Subscribe ends only by a loss or with ctx.
		_ = s.source.Subscribe(ctx, in.channel, func(up bool) { s.turn(in, up) }, func(text string) { s.deliver(in, text) })
		stood := s.turn(in, false)
		s.tried(in)
		if ctx.Err() != nil {
			return
		}
		if stood {
			delay = retryMin
			s.source.Doubt()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay/2 + rand.N(delay/2)):
		}
		delay = min(2*delay, s.retryMost(in))
	}
}

// retryMost returns the longest pause between attempts to subscribe. It is longer if nobody waits, to spare a store that
// refuses.
func (s *Set) retryMost(in *inbox) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := in.wanted
	in.wanted = false
	if s.Subscriber != nil && !wanted {
		return retryIdle
	}
	return retryMax
}

// putOff waits for the time of the first attempt, and returns false if ctx ends first.
func (s *Set) putOff(ctx context.Context, in *inbox) bool {
	for {
		s.mu.Lock()
		left := time.Until(in.trying)
		s.mu.Unlock()
		if left <= 0 || ctx.Err() != nil {
			return ctx.Err() == nil
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-in.sooner:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// turn notes whether the subscription stands, and reports whether it did before. Claims on a lost subscription must enter
// again: it may have missed a message.
func (s *Set) turn(in *inbox, stands bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := in.stands
	if before == stands {
		return before
	}
	in.stands, in.trying = stands, time.Time{}
	if stands {
		s.standing.Add(1)
		if s.Subscriber != nil {
			s.Subscriber.Subscribed(in.channel)
		}
	} else {
		s.standing.Add(-1)
	}
	close(in.turned)
	in.turned = make(chan struct{})
	if before {
		clear(in.waiting)
		in.idle.Reset(s.Idle)
	}
	return before
}

// tried notes the failure of the first attempt, if it has not stood, and makes its waiters ask again.
func (s *Set) tried(in *inbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.trying.IsZero() {
		return
	}
	in.trying = time.Time{}
	close(in.turned)
	in.turned = make(chan struct{})
}

// deliver gives a message to its claim. It ignores a message about an unexpected claim.
func (s *Set) deliver(in *inbox, text string) {
	claim, ticket, ok := s.parse(text)
	if !ok {
		if s.Subscriber != nil {
			s.Subscriber.Received(in.channel, text)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := in.waiting[claim]
	if w == nil {
		return
	}
	select {
	case before := <-w.ticket:
		if before != 0 { // once is enough
			ticket = before
		}
	default:
	}
	w.ticket <- ticket // there is room: nobody else sends
}
