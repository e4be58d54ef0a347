package redis

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/redis/internal/conn"
)

const (
	askAgain  = 100 * time.Millisecond // how long Await waits where the server cannot tell anything
	idleAfter = 10 * time.Second       // when a subscription that nobody waits on ends
	retryMin  = 10 * time.Millisecond
	retryMax  = time.Second
)

// The inboxes hand what the server tells to the claims that wait for it. One subscription serves all claims of a client; in
// a cluster with sharded channels, those of a client on a name. A claim is entered in its inbox before its request is sent,
// and only while the subscription is known to stand, so that no message is sent before somebody listens.
type inboxes struct {
	conn      *conn.Conn
	mu        sync.Mutex // guards all below, also in the inboxes
	byChannel map[string]*inbox
}

// An inbox is one subscription and the claims that wait on it.
type inbox struct {
	channel string
	stop    context.CancelFunc
	idle    *time.Timer
	stands  bool          // the server has confirmed the subscription
	turned  chan struct{} // closed when stands changes
	waiting map[string]*waiter
}

// A waiter is where one claim is told its ticket.
type waiter struct {
	ticket chan int64
	lost   chan struct{} // closed when the subscription is lost
}

func newInboxes(c *conn.Conn) *inboxes { return &inboxes{conn: c, byChannel: map[string]*inbox{}} }

func label(id, key string) string { return id + " " + key }

// expect prepares for a claim's being told, if its client listens.
func (s *inboxes) expect(channel, id, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.byChannel[channel]
	if in == nil || !in.stands {
		return
	}
	if l := label(id, key); in.waiting[l] == nil {
		in.waiting[l] = &waiter{ticket: make(chan int64, 1), lost: in.turned}
	}
}

// forget is the reverse of expect.
func (s *inboxes) forget(channel, id, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.byChannel[channel]
	if in == nil || len(in.waiting) == 0 {
		return
	}
	delete(in.waiting, label(id, key))
	if len(in.waiting) == 0 {
		in.idle.Reset(idleAfter)
	}
}

func (s *inboxes) find(channel, id, key string) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.byChannel[channel]; in != nil {
		return in.waiting[label(id, key)]
	}
	return nil
}

// Await waits for the server's word. The first time, and after the connection was lost, it returns early as soon as the
// server listens to this client, so that what happened before is seen by entering again.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	closed := d.conn.Context()
	if closed.Err() != nil {
		return driver.Place{}, driver.ErrClosed
	}
	key := d.key(c.Name)
	channel := d.channel(key, c)
	w := d.inboxes.find(channel, c.ID, key)
	if w == nil {
		return driver.Place{}, d.inboxes.open(ctx, channel)
	}
	select {
	case ticket := <-w.ticket:
		d.inboxes.forget(channel, c.ID, key)
		if c.Ticket != 0 && c.Ticket != ticket {
			return driver.Place{}, nil
		}
		return driver.Place{Ticket: ticket, Holds: true}, nil
	case <-w.lost:
		return driver.Place{}, nil
	case <-ctx.Done():
		return driver.Place{}, driver.Ended(ctx, true)
	case <-closed.Done():
		return driver.Place{}, driver.ErrClosed
	}
}

// open begins a subscription, unless it has begun, and waits until it stands, but not for long.
func (s *inboxes) open(ctx context.Context, channel string) error {
	closed := s.conn.Context()
	s.mu.Lock()
	in := s.byChannel[channel]
	if in == nil {
		in = &inbox{channel: channel, turned: make(chan struct{}), waiting: map[string]*waiter{}}
		run, stop := context.WithCancel(closed)
		in.stop = stop
		in.idle = time.AfterFunc(idleAfter, func() { s.retire(in) })
		if !s.conn.Go(func() { s.listen(run, in) }) {
			s.mu.Unlock()
			stop()
			return driver.ErrClosed
		}
		s.byChannel[channel] = in
	}
	stands, turned := in.stands, in.turned
	s.mu.Unlock()
	if stands {
		return nil
	}
	again := time.NewTimer(askAgain)
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

// retire ends a subscription on which nobody waits.
func (s *inboxes) retire(in *inbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(in.waiting) > 0 {
		return // the timer is set again when the last of them goes
	}
	delete(s.byChannel, in.channel)
	in.stop()
}

// listen keeps a subscription up until ctx ends.
func (s *inboxes) listen(ctx context.Context, in *inbox) {
	defer in.idle.Stop()
	delay := retryMin
	for {
		// It can end in no other way than by being lost.
		_ = s.conn.Subscribe(ctx, in.channel, func(up bool) { s.turn(in, up) }, func(text string) { s.deliver(in, text) })
		stood := s.turn(in, false)
		if ctx.Err() != nil {
			return
		}
		if stood {
			delay = retryMin
			s.conn.Doubt() // so that the next call does not find out by losing its request
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay/2 + rand.N(delay/2)):
		}
		delay = min(2*delay, retryMax)
	}
}

// turn notes whether the subscription stands, and reports whether it did before. The claims that waited on one that is
// lost must enter again.
func (s *inboxes) turn(in *inbox, stands bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := in.stands
	if before == stands {
		return before
	}
	in.stands = stands
	close(in.turned)
	in.turned = make(chan struct{})
	if before {
		clear(in.waiting)
		in.idle.Reset(idleAfter)
	}
	return before
}

// deliver takes a message apart, "ticket id key", and tells the claim. One that matches no claim means nothing.
func (s *inboxes) deliver(in *inbox, text string) {
	first, rest, _ := strings.Cut(text, " ")
	ticket, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := in.waiting[rest]; w != nil {
		select {
		case w.ticket <- ticket:
		default: // it was told before, and once is enough
		}
	}
}
