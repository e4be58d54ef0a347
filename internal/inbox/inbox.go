// Package inbox hands the messages of a store to the claims that wait for them. It is for drivers whose store sends a
// client the ticket of a claim that holds, or 0 for a claim that must enter again, since its knowledge of the claims
// ahead is out of date.
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
	askAgain  = 100 * time.Millisecond // how long Await waits while the store cannot tell anything
	soon      = 500 * time.Millisecond // and until when at least, from when it was first asked to, unless that has failed
	idleAfter = 10 * time.Second
	unheard   = 2 * time.Minute // how long a claim is expected whose client neither enters it nor waits: it may have died
	retryMin  = 10 * time.Millisecond
	retryMax  = time.Second
	retryIdle = 5 * time.Second // at most, while nobody waits
)

// A Source is where the messages come from.
type Source interface {
	// Context ends when the driver is closed.
	Context() context.Context

	// Go runs f in a goroutine that the driver's Close waits for. It reports false if the driver is closed.
	Go(f func()) bool

	// Subscribe listens to a channel until the subscription is lost or ctx ends. It calls stands whenever the store confirms
	// the subscription, or ends it, and told with each message.
	Subscribe(ctx context.Context, channel string, stands func(bool), told func(text string)) error

	// Doubt says that a subscription that stood was lost.
	Doubt()
}

// A Subscriber needs subscriptions for more than the claims that wait. Its methods return soon, and do not call the Set.
type Subscriber interface {
	// Needs reports whether a subscription goes on although nobody waits on it. If not, it ends.
	Needs(channel string) bool

	// Subscribed reports that a subscription stands, for the first time or again.
	Subscribed(channel string)

	// Received hands over a message that is for no waiting claim.
	Received(channel, text string)
}

// A Set is the inboxes of a driver, one for each channel that its claims wait on. A claim is entered in its inbox before its
// request is sent, and only while the subscription is known to stand, so that no message is sent before somebody listens.
// Its methods may be called at once.
type Set struct {
	Idle       time.Duration // when a subscription on which nobody waits ends
	Subscriber Subscriber    // set before the first call; nil if there is none

	source Source
	parse  func(text string) (claim string, ticket int64, ok bool)

	standing atomic.Int64 // how many subscriptions stand; changed under mu

	mu        sync.Mutex // guards what follows, also in the inboxes
	byChannel map[string]*inbox
}

// An inbox is one subscription and the claims that wait on it. They are expected only while it stands: when it is lost,
// their waits return, and none is expected any more.
//
//	put off ──its time comes──► first attempt ──confirmed──► standing
//	                                  │                       │   ▲
//	                                failed                  lost  │ confirmed
//	                                  └──────► down ◄─────────┘   │
//	                                            └── tried again ──┘
//
// Each of them ends when nobody has waited for a while.
type inbox struct {
	channel string
	stop    context.CancelFunc
	idle    *time.Timer
	trying  time.Time     // since when the first attempt to subscribe lasts, or will; zero once that is over
	sooner  chan struct{} // has an element if trying has come nearer
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
	came   time.Time     // when its client entered it, or ended to wait
}

// New returns the inboxes for the messages of a source. Parse takes a message apart; one that it does not know means
// nothing.
func New(source Source, parse func(text string) (claim string, ticket int64, ok bool)) *Set {
	return &Set{Idle: idleAfter, source: source, parse: parse, byChannel: map[string]*inbox{}}
}

// Expect prepares for a claim's message, and reports whether one can come: nobody gets a message before the
// subscription stands. An expected claim keeps the subscription up, until Forget, until it is lost, or until the client was not
// heard of for a while.
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

// Stands reports whether a subscription stands. As long as it does not, no claim of it is expected. Drivers ask before and after each
// request, and mostly nobody waits.
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

// find returns the waiter of a call of Await, which left ends; nil for a claim that is not expected.
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

// Await implements [driver.Driver]. It waits until an expected claim gets a message with its ticket. It returns early
// for a claim that is not expected, as soon as the subscription stands, and for a claim whose subscription is lost:
// entering again shows what happened before. Ticket 0 means the same. A claim that has a ticket holds only by that
// one.
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

// Open begins a subscription, unless it has begun or was put off, and waits until it stands, but not for long.
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

// begin returns whether a subscription stands, a channel that is closed when that changes or when the first attempt has failed, and how
// long to wait for it. When many clients come at once, all of them subscribe: a store that is busy with that must not be asked by each
// again and again meanwhile. 1,000 clients that come for one name in Redis ask 2,000 times so until all are in the queue and listen, and
// asked 3,300 to 3,800 times when each asked every 100 ms (on a busy machine with two cores).
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

// Within begins a subscription within a time, unless it has begun: now, if the time is 0. The time is for a client whose
// claim has so many ahead that its turn cannot come sooner: if many claims come at once, the store should first serve those
// that are not in the queue yet.
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
		default: // it has not seen yet that it came nearer before
		}
	}
}

// subscribedLocked returns the inbox of a channel; a new one subscribes after a delay. The error is
// [driver.ErrClosed].
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
	delete(s.byChannel, in.channel) // the next claim begins another subscription, and does not wait for this one's end
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
		// It can end in no other way than by being lost.
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

// retryMost is the longest pause between attempts to subscribe. A subscription that nobody needs for waiting costs a store that
// refuses it little.
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

// putOff waits until the first attempt is to begin, and reports whether it is: ctx has not ended.
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

// turn notes whether the subscription stands, and reports whether it did before. The claims that waited on one that is
// lost must enter again: a message may have been sent meanwhile.
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

// tried notes that the first attempt to subscribe has failed, if it has not stood, and makes its waiters ask again.
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

// deliver hands a message to its claim. A message about a claim that is not expected means nothing.
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
