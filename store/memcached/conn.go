package memcached

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// patience bounds the wait for any answer of the server, after which the connection is given up. So it bounds how long a
// call can hang on a dead server.
const patience = 5 * time.Second

// A conn is a connection whose requests are answered in order. Many goroutines use it at once, and requests of the same
// moment travel together.
//
// One goroutine at a time reads the answers:
//
//	                 a call that is alone
//	      ┌────────┐     has been sent       ┌────────┐
//	      │ nobody ├────────────────────────►│ caller │
//	      │        │◄────────────────────────┤        │
//	      └─┬────▲─┘     it has them all     └───┬────┘
//	        │    │                               │ others wait as well, it gives up,
//	        │    │ all have been answered        │ or its answers come in parts
//	        │  ┌─┴───────┐                       │
//	        └─►│ reader  │◄──────────────────────┘
//	           └─────────┘
//	nothing was asked for a while, or another call was first
//
// When many calls have waited at once, the reader goes on reading for some calls after all have been answered: more calls
// are likely.
//
// The reader is a goroutine of the connection. It notices when an idle connection breaks. A caller that reads for itself
// need not be woken by another goroutine: a lock and unlock takes 23 µs (median), in place of 125 with the reader, beside
// 115 for gomemcache's add and delete in the same minute (cd proof/bench && go run . -store=memcached -only='^alone$').
type conn struct {
	sock   net.Conn
	in     *bufio.Reader // only the current reader uses it
	part   *partial      // its source
	saved  []byte        // read by the caller that reads: the data so far
	number uint64        // its number among the link's connections, from 1
	clock  clock         // the clock of the process at the other end
	facts  *facts
	kick   chan struct{} // has room for one: there is something to write
	turn   chan struct{} // has room for one: the reader must read
	broken chan struct{} // closed when it is broken
	work   sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	out       []byte     // to be written
	spare     []byte
	writing   bool    // a goroutine writes now
	calls     []*call // whose answers have not come, in order
	who       who     // the goroutine that reads
	batchLeft int     // how many more calls the reader reads although nobody waits
	used      bool    // a call came since the reader last looked
	ended     bool    // the caller that reads must give up
	asks      *call   // the call whose context is being checked; nil if none is
	err       error   // why it is broken
}

// A who is the kind of goroutine that reads.
type who int

const (
	nobody who = iota
	caller     // the only call when it was sent
	reader
)

// lookEvery is how often a reader that does not read checks whether the connection is idle, or the caller that reads must
// give up.
const lookEvery = 20 * time.Millisecond

// While more than few calls wait at once, and for batchAfter calls afterwards, the reader reads.
const (
	few        = 4
	batchAfter = 16
)

// small is the length in bytes of a request that a socket accepts without waiting if nothing is on its way.
const small = 16 << 10

// A call is one or several requests that are sent in one piece, and their answers.
type call struct {
	want    int // answers
	replies []reply
	sent    bool // it may have reached the server; guarded by the connection's mu
	ctx     context.Context
	begun   time.Time
	done    chan struct{} // closed when it has all answers, or the connection broke
	err     error
}

// newConn starts to serve a connection, whose reader looks every lookEvery.
func newConn(sock net.Conn, lookEvery time.Duration) *conn {
	part := &partial{from: sock}
	c := &conn{
		sock: sock, in: bufio.NewReaderSize(part, 16<<10), part: part,
		kick: make(chan struct{}, 1), turn: make(chan struct{}, 1), broken: make(chan struct{}),
	}
	c.work.Go(c.write)
	c.work.Go(func() { c.read(lookEvery) })
	return c
}

// do sends requests and returns their answers. An [unsent] error says that nothing was sent.
func (c *conn) do(ctx context.Context, requests []byte, want int) ([]reply, error) {
	if err := driver.Ended(ctx, false); err != nil {
		return nil, &ended{err}
	}
	k := &call{want: want, ctx: ctx, begun: time.Now(), done: make(chan struct{})}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, &unsent{c.err}
	}
	lone := len(c.calls) == 0
	direct := lone && !c.writing && len(requests) <= small
	reads := direct && c.who == nobody
	if c.calls, c.used = append(c.calls, k), true; len(c.calls) > few {
		c.batchLeft = batchAfter
	}
	switch {
	case reads:
		c.who = caller
	case c.who == nobody:
		c.handOnLocked()
	case lone: // and the reader has waited for something to happen
		c.sock.SetReadDeadline(k.begun.Add(patience))
	}
	if direct {
		k.sent = true
		c.sendLocked(requests) // waking the writer would take a good part of the round trip
	} else {
		c.out = append(c.out, requests...)
		c.wake()
	}
	c.mu.Unlock()
	if reads {
		c.readFor(k)
	}
	select {
	case <-k.done:
	case <-ctx.Done():
		return nil, &ended{driver.Ended(ctx, true)} // if it was not sent yet, it will be
	}
	if k.err != nil {
		return nil, k.ended(k.err)
	}
	return k.replies, nil
}

// ended returns the error of an unanswered call.
func (k *call) ended(err error) error {
	if !k.sent {
		return &unsent{err}
	}
	return err
}

// sendLocked writes. Meanwhile the mutex is free, and nobody else writes.
func (c *conn) sendLocked(text []byte) {
	c.writing = true
	c.mu.Unlock()
	c.sock.SetWriteDeadline(time.Now().Add(patience))
	_, err := c.sock.Write(text)
	if err != nil {
		c.fail(err)
	}
	c.mu.Lock()
	c.writing = false
	if len(c.out) > 0 {
		c.wake()
	}
}

func (c *conn) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// write writes the pending requests, until the connection is broken.
func (c *conn) write() {
	for {
		select {
		case <-c.kick:
		case <-c.broken:
			return
		}
		c.mu.Lock()
		if !c.writing && len(c.out) > 0 { // otherwise the writing goroutine wakes this one
			out := c.out
			c.out, c.spare = c.spare[:0], nil
			for i := len(c.calls) - 1; i >= 0 && !c.calls[i].sent; i-- {
				c.calls[i].sent = true
			}
			c.sendLocked(out)
			c.spare = out
		}
		c.mu.Unlock()
	}
}

// read reads answers when nobody else does, until the connection is broken.
func (c *conn) read(lookEvery time.Duration) {
	tick := time.NewTimer(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.turn:
		case <-tick.C:
			if !c.takeReading() {
				tick.Reset(lookEvery)
				continue
			}
		case <-c.broken:
			return
		}
		for reads := true; reads; {
			r, err := readReply(c.in)
			if err != nil {
				c.fail(err)
				return
			}
			if reads, err = c.hand(&r); err != nil {
				c.fail(err)
				return
			}
		}
		tick.Reset(lookEvery)
	}
}

// takeReading lets the reader read if the connection is idle, and reports whether it does. If a caller reads, takeReading
// makes it give up when its context has ended, or when the server has been silent for too long.
func (c *conn) takeReading() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
	case c.who == caller && !c.ended:
		if k := c.calls[0]; time.Since(k.begun) >= patience {
			c.giveUpLocked()
		} else if c.asks != k {
			c.asks = k
			c.work.Go(func() { c.checkContext(k) })
		}
	case c.who == nobody && len(c.calls) == 0 && !c.used:
		c.who = reader
		return true
	}
	c.used = false
	return false
}

// checkContext stops a caller that reads if its context has ended. The context's methods belong to its owner, and may call
// over this connection, so no call waits for them.
func (c *conn) checkContext(k *call) {
	over := k.ctx.Err() != nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asks == k {
		c.asks = nil
	}
	if over && c.err == nil && c.who == caller && c.calls[0] == k && !c.ended {
		c.giveUpLocked()
	}
}

// giveUpLocked stops the caller that reads.
func (c *conn) giveUpLocked() {
	c.ended = true
	c.sock.SetReadDeadline(time.Unix(1, 0))
}

// handOnLocked lets the reader read.
func (c *conn) handOnLocked() {
	c.who = reader
	deadline := time.Now().Add(patience)
	if len(c.calls) > 0 && c.ended {
		deadline = c.calls[0].begun.Add(patience)
	}
	c.ended = false
	c.sock.SetReadDeadline(deadline)
	c.turn <- struct{}{} // it does not read, and takes the turn before it reads again
}

// readFor reads the answers of the only call, in its caller's goroutine, unless the reader must go on.
func (c *conn) readFor(k *call) {
	_, err := c.in.Peek(1)
	if err == nil {
		err = c.readWhole(k)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
	case errors.Is(err, errInPart), errors.Is(err, os.ErrDeadlineExceeded) && c.ended:
		c.handOnLocked()
	case err != nil:
		c.closeWith(err)
	default:
		last := len(k.replies) - 1
		if r := k.replies[last]; r.status == "CLIENT_ERROR" {
			k.replies = k.replies[:last]
			c.misreadLocked(k, &r)
			return
		}
		c.answeredLocked(k)
		if len(c.calls) > 0 {
			c.handOnLocked()
		} else if c.ended {
			c.ended = false
			c.sock.SetReadDeadline(time.Time{})
		}
	}
}

// answeredLocked notes that the first of the calls has all its answers. Only the reading goroutine calls it.
func (c *conn) answeredLocked(k *call) {
	c.calls[0] = nil
	c.calls = c.calls[1:]
	close(k.done)
	if len(c.calls) > 0 {
		return
	}
	if c.in.Buffered() > 0 {
		c.closeWith(errUnasked)
	}
	if c.who == reader && c.batchLeft > 0 {
		c.batchLeft--
	} else {
		c.who = nobody
	}
}

var errUnasked = errors.New("memcached answered without being asked")

// readWhole reads a call's answers if they have come. The error is errInPart if only a part has come; then it can read
// again.
func (c *conn) readWhole(k *call) error {
	come, _ := c.in.Peek(c.in.Buffered())
	c.saved = append(c.saved[:0], come...)
	c.part.no = true
	defer func() { c.part.no = false }()
	for range k.want {
		r, err := readReply(c.in)
		if errors.Is(err, errInPart) {
			k.replies = nil
			c.in.Reset(io.MultiReader(bytes.NewReader(slices.Clone(c.saved)), c.part))
		}
		if err != nil {
			return err
		}
		k.replies = append(k.replies, r)
		if r.status == "CLIENT_ERROR" {
			return nil
		}
	}
	return nil
}

// hand gives an answer to the first of the calls. It reports whether the reader goes on reading.
func (c *conn) hand(r *reply) (reads bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) == 0 {
		return false, errUnasked
	}
	k := c.calls[0]
	if r.status == "CLIENT_ERROR" {
		c.misreadLocked(k, r)
		return false, c.err
	}
	k.replies = append(k.replies, *r)
	if len(k.replies) == k.want {
		c.answeredLocked(k)
	}
	if len(c.calls) == 0 {
		c.sock.SetReadDeadline(time.Time{})
		return c.who == reader, c.err
	}
	c.sock.SetReadDeadline(time.Now().Add(patience))
	return true, nil
}

// A partial is the source of a connection's data. With no, only buffered data are read.
type partial struct {
	from io.Reader
	no   bool // belongs to the current reader
}

var errInPart = errors.New("the answer has not come as a whole")

func (p *partial) Read(into []byte) (int, error) {
	if p.no {
		return 0, errInPart
	}
	return p.from.Read(into)
}

// misreadLocked breaks the connection: the server has not understood a request, and may interpret the rest in another way.
func (c *conn) misreadLocked(k *call, r *reply) {
	if len(k.replies) == 0 {
		k.err = r.failure() // the server has done nothing of it
		c.calls = c.calls[1:]
		close(k.done)
	}
	c.closeWith(errors.New("memcached did not understand a request"))
}

// fail breaks the connection. The first reason stays.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeWith(err)
}

func (c *conn) closeWith(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	for _, k := range c.calls {
		k.err = err
		close(k.done)
	}
	c.calls = nil
	close(c.broken)
	c.sock.Close()
}

// close breaks the connection and waits until its goroutines have ended.
func (c *conn) close(why error) {
	c.fail(why)
	c.work.Wait()
}
