package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/postgres/internal/link"
)

const (
	listenWithin = 5 * time.Second        // how long the server may take to listen
	askAgain     = 100 * time.Millisecond // how long Await waits for a connection that listens
	idleAfter    = 10 * time.Second       // when a connection on which nobody waits is closed
	tryEvery     = 5 * time.Second        // how often an idle connection is tried
	echoes       = time.Second            // within what time a notification must come back
	retryMin     = 10 * time.Millisecond
	retryMax     = time.Second
)

// A listener hands what the server tells to the claims that wait for it, by one connection for all claims of a driver. A
// claim is entered before its request is sent, and only while the connection is known to listen, so that nothing is told
// to deaf ears.
type listener struct {
	d *Driver

	mu     sync.Mutex // guards what follows, also in the boxes
	off    string     // why notifications do not come through here, if they do not
	run    context.CancelFunc
	idle   *time.Timer
	stands bool          // it listens
	turned chan struct{} // closed when stands changes
	boxes  map[string]*box
}

// A box is where one claim is told its ticket.
type box struct {
	ticket chan int64
	lost   chan struct{} // closed when the connection is lost
}

func newListener(d *Driver) *listener {
	return &listener{d: d, turned: make(chan struct{}), boxes: map[string]*box{}}
}

// expect prepares for a claim's being told, and reports whether it can be.
func (l *listener) expect(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stands {
		return false
	}
	if l.boxes[id] == nil {
		l.boxes[id] = &box{ticket: make(chan int64, 1), lost: l.turned}
	}
	return true
}

// forget is the reverse of expect.
func (l *listener) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.boxes[id] == nil {
		return
	}
	delete(l.boxes, id)
	if len(l.boxes) == 0 && l.idle != nil {
		l.idle.Reset(idleAfter)
	}
}

func (l *listener) find(id string) *box {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.boxes[id]
}

// listens reports whether the connection listens.
func (l *listener) listens() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stands
}

// polls reports whether notifications do not come through.
func (l *listener) polls() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.off != ""
}

// Await waits for the server's word. The first time, and after the connection was lost, it returns early as soon as the
// driver listens, so that what happened before is seen by entering again. Where notifications do not come through, it
// polls, with one statement for all claims of the driver.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if d.link.Context().Err() != nil {
		return driver.Place{}, driver.ErrClosed
	}
	if d.listener.polls() {
		return d.poller.wait(ctx, c)
	}
	b := d.listener.find(c.ID)
	if b == nil {
		return driver.Place{}, d.listener.open(ctx)
	}
	select {
	case ticket := <-b.ticket:
		d.listener.forget(c.ID)
		if c.Ticket != 0 && c.Ticket != ticket {
			return driver.Place{}, nil
		}
		return driver.Place{Ticket: ticket, Holds: true}, nil
	case <-b.lost:
		return driver.Place{}, nil
	case <-ctx.Done():
		return driver.Place{}, driver.Ended(ctx, true)
	case <-d.link.Context().Done():
		return driver.Place{}, driver.ErrClosed
	}
}

// open has a connection listen, unless one does, and waits until it stands, but not for long.
func (l *listener) open(ctx context.Context) error {
	l.mu.Lock()
	if l.run == nil {
		run, stop := context.WithCancel(l.d.link.Context())
		l.run = stop
		l.idle = time.AfterFunc(idleAfter, l.retire)
		if !l.d.link.Go(func() { l.keep(run) }) {
			l.mu.Unlock()
			stop()
			return driver.ErrClosed
		}
	}
	stands, turned := l.stands, l.turned
	l.mu.Unlock()
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
	case <-l.d.link.Context().Done():
		return driver.ErrClosed
	}
	return nil
}

// retire closes a connection on which nobody waits.
func (l *listener) retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.boxes) > 0 || l.d.watch.some() || l.run == nil {
		return // the timer is set again when the last of them goes
	}
	l.run()
	l.run = nil
	l.idle.Stop()
	l.turnLocked(false)
}

// rest lets the connection be closed in a while, if nobody needs it until then.
func (l *listener) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle != nil {
		l.idle.Reset(idleAfter)
	}
}

// keep listens until ctx ends, again and again.
func (l *listener) keep(ctx context.Context) {
	delay := retryMin
	for ctx.Err() == nil {
		began := time.Now()
		_ = l.listen(ctx) // it can end in no other way than by being lost
		if ctx.Err() != nil {
			return
		}
		l.d.link.Lost()
		l.turn(ctx, false)
		if time.Since(began) > retryMax {
			delay = retryMin
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay/2 + rand.N(delay/2)):
		}
		delay = min(2*delay, retryMax)
	}
}

// listen listens on one connection until it is lost or ctx ends.
func (l *listener) listen(ctx context.Context) error {
	conn, err := l.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		conn.Close(bye)
	}()
	if id, err := l.d.serverID(ctx, conn); err == nil {
		l.d.failover.heard(id)
	}
	l.turn(ctx, true)
	for {
		quiet, cancel := context.WithTimeout(ctx, tryEvery)
		n, err := conn.WaitForNotification(quiet)
		over := quiet.Err() != nil
		cancel()
		switch {
		case err == nil:
			l.deliver(n.Channel, n.Payload)
			continue
		case ctx.Err() != nil || !over || conn.IsClosed():
			return err
		}
		// Nothing came for a while: is the connection still there?
		ask, cancel := context.WithTimeout(ctx, tryEvery)
		_, err = conn.Exec(ask, "SELECT 1", link.Plain)
		cancel()
		if err != nil {
			return err
		}
	}
}

// connect makes a connection that listens to this driver's channel and to the one of watches.
func (l *listener) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := l.d.link.Dial(ctx)
	if err != nil {
		return nil, err
	}
	listen := `LISTEN "` + l.d.channel + `"; LISTEN "` + l.d.tables.channel() + `"`
	within, cancel := context.WithTimeout(ctx, listenWithin)
	defer cancel()
	if _, err := conn.Exec(within, listen, pgx.QueryExecModeSimpleProtocol); err != nil {
		link.HangUp(conn)
		return nil, err
	}
	return conn, nil
}

var errDeaf = errors.New("notifications do not come through: " +
	"a pooler that shares connections between transactions is in between")

// try finds out whether a notification sent on one connection comes to another that listens.
func (l *listener) try(ctx context.Context) error {
	conn, err := l.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	const echo = "SELECT pg_notify($1::text, 'echo')"
	if _, err := l.d.link.Pool().Exec(ctx, echo, link.Plain, l.d.channel); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, echoes)
	defer cancel()
	if _, err := conn.WaitForNotification(within); err != nil {
		return errDeaf
	}
	return nil
}

// turn notes whether the connection listens. The claims that waited on one that is lost must enter again.
func (l *listener) turn(ctx context.Context, stands bool) {
	l.mu.Lock()
	if ctx.Err() == nil {
		l.turnLocked(stands)
	}
	l.mu.Unlock()
	l.d.watch.all()
}

func (l *listener) turnLocked(stands bool) {
	if l.stands == stands {
		return
	}
	l.stands = stands
	close(l.turned)
	l.turned = make(chan struct{})
	if !stands {
		clear(l.boxes)
	}
	l.idle.Reset(idleAfter)
}

// deliver takes a message apart, "ticket id", and tells the claim. One that matches no claim means nothing.
func (l *listener) deliver(channel, text string) {
	if channel == l.d.tables.channel() {
		if name, err := hex.DecodeString(text); err == nil {
			l.d.watch.changed(string(name))
		}
		return
	}
	first, rest, _ := strings.Cut(text, " ")
	ticket, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return
	}
	id, err := hex.DecodeString(rest)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.boxes[string(id)]; b != nil {
		select {
		case b.ticket <- ticket:
		default:
		}
	}
}
