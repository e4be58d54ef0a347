package redis

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

const (
	askAgain  = 100 * time.Millisecond // how long Await waits where the server cannot tell anything
	idleAfter = 10 * time.Second       // when a subscription that nobody waits on ends
	retryMin  = 10 * time.Millisecond
	retryMax  = time.Second
)

// mail hands what the server tells to the claims that wait for it. One subscription serves all claims of a client; in a
// cluster with sharded channels, those of a client on a name. A claim is entered in the mail before its request is
// sent, and only while the subscription is known to stand, so that nothing is told to deaf ears.
type mail struct {
	d  *Driver
	mu sync.Mutex // guards all below, also in the inboxes
	in map[string]*inbox
}

// An inbox is one subscription and the claims that wait on it.
type inbox struct {
	channel string
	stop    context.CancelFunc
	idle    *time.Timer
	stands  bool          // the server has confirmed the subscription
	turned  chan struct{} // closed when stands changes
	boxes   map[string]*box
}

// A box is where one claim is told its ticket.
type box struct {
	ticket chan int64
	lost   chan struct{} // closed when the subscription is lost
}

func newMail(d *Driver) *mail { return &mail{d: d, in: map[string]*inbox{}} }

func label(id, key string) string { return id + " " + key }

// expect prepares for a claim's being told, if its client listens.
func (m *mail) expect(channel, id, key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := m.in[channel]
	if in == nil || !in.stands {
		return
	}
	if l := label(id, key); in.boxes[l] == nil {
		in.boxes[l] = &box{ticket: make(chan int64, 1), lost: in.turned}
	}
}

// forget is the reverse of expect.
func (m *mail) forget(channel, id, key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := m.in[channel]
	if in == nil || len(in.boxes) == 0 {
		return
	}
	delete(in.boxes, label(id, key))
	if len(in.boxes) == 0 {
		in.idle.Reset(idleAfter)
	}
}

func (m *mail) find(channel, id, key string) *box {
	m.mu.Lock()
	defer m.mu.Unlock()
	if in := m.in[channel]; in != nil {
		return in.boxes[label(id, key)]
	}
	return nil
}

// Await waits for the server's word. The first time, and after the connection was lost, it returns early as soon as the
// server listens to this client, so that what happened before is seen by entering again.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if d.ctx.Err() != nil {
		return driver.Place{}, driver.ErrClosed
	}
	key := d.key(c.Name)
	channel := d.channel(key, c)
	b := d.mail.find(channel, c.ID, key)
	if b == nil {
		return driver.Place{}, d.mail.open(ctx, channel)
	}
	select {
	case ticket := <-b.ticket:
		d.mail.forget(channel, c.ID, key)
		if c.Ticket != 0 && c.Ticket != ticket {
			return driver.Place{}, nil
		}
		return driver.Place{Ticket: ticket, Holds: true}, nil
	case <-b.lost:
		return driver.Place{}, nil
	case <-ctx.Done():
		return driver.Place{}, driver.Ended(ctx, true)
	case <-d.ctx.Done():
		return driver.Place{}, driver.ErrClosed
	}
}

// open begins a subscription, unless it has begun, and waits until it stands, but not for long.
func (m *mail) open(ctx context.Context, channel string) error {
	m.mu.Lock()
	in := m.in[channel]
	if in == nil {
		in = &inbox{channel: channel, turned: make(chan struct{}), boxes: map[string]*box{}}
		run, stop := context.WithCancel(m.d.ctx)
		in.stop = stop
		in.idle = time.AfterFunc(idleAfter, func() { m.retire(in) })
		if !m.d.spawn(func() { m.listen(run, in) }) {
			m.mu.Unlock()
			stop()
			return driver.ErrClosed
		}
		m.in[channel] = in
	}
	stands, turned := in.stands, in.turned
	m.mu.Unlock()
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
	case <-m.d.ctx.Done():
		return driver.ErrClosed
	}
	return nil
}

// retire ends a subscription on which nobody waits.
func (m *mail) retire(in *inbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(in.boxes) > 0 {
		return // the timer is set again when the last of them goes
	}
	delete(m.in, in.channel)
	in.stop()
}

// listen keeps a subscription up until ctx ends.
func (m *mail) listen(ctx context.Context, in *inbox) {
	defer in.idle.Stop()
	subscribe := m.subscribe
	if m.d.sharded {
		subscribe = m.subscribeSharded
	}
	delay := retryMin
	for {
		_ = subscribe(ctx, in) // it can end in no other way than by being lost
		stood := m.turn(in, false)
		if ctx.Err() != nil {
			return
		}
		if stood {
			delay = retryMin
			m.d.down.Store(true) // so that the next call does not find out by losing its request
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay/2 + rand.N(delay/2)):
		}
		delay = min(2*delay, retryMax)
	}
}

// subscribe listens on a connection of its own, so that calls on the other stay quick, until it is lost or ctx ends.
func (m *mail) subscribe(ctx context.Context, in *inbox) error {
	c, release := m.d.client.Dedicate()
	defer release()
	defer c.Close()
	lost := c.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(msg rueidis.PubSubMessage) { m.deliver(in, msg.Message) },
		OnSubscription: func(s rueidis.PubSubSubscription) { m.turn(in, s.Kind == "subscribe") },
	})
	if err := c.Do(ctx, c.B().Subscribe().Channel(in.channel).Build()).Error(); err != nil {
		return err
	}
	select {
	case err := <-lost:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// subscribeSharded listens on the connection to the server that has the name, until that is lost, the name moves to
// another server, or ctx ends.
func (m *mail) subscribeSharded(ctx context.Context, in *inbox) error {
	b := m.d.client.B()
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) { m.turn(in, s.Kind == "ssubscribe") })
	hooked = rueidis.WithOnReceiveReturnHook(hooked, func(err error, c rueidis.CommandClient) error {
		if ctx.Err() != nil && m.d.ctx.Err() == nil { // the client would leave the connection subscribed
			leave, cancel := context.WithTimeout(m.d.ctx, probeWithin)
			defer cancel()
			c.Do(leave, b.Sunsubscribe().Channel(in.channel).Build())
		}
		return err
	})
	return m.d.client.Receive(hooked, b.Ssubscribe().Channel(in.channel).Build(), func(msg rueidis.PubSubMessage) {
		m.deliver(in, msg.Message)
	})
}

// turn notes whether the subscription stands, and reports whether it did before. The claims that waited on one that is
// lost must enter again.
func (m *mail) turn(in *inbox, stands bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := in.stands
	if before == stands {
		return before
	}
	in.stands = stands
	close(in.turned)
	in.turned = make(chan struct{})
	if before {
		clear(in.boxes)
		in.idle.Reset(idleAfter)
	}
	return before
}

// deliver takes a message apart, "ticket id key", and tells the claim. One that matches no claim means nothing.
func (m *mail) deliver(in *inbox, text string) {
	first, rest, _ := strings.Cut(text, " ")
	ticket, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := in.boxes[rest]; b != nil {
		select {
		case b.ticket <- ticket:
		default:
		}
	}
}
