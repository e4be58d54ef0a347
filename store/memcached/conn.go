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

// patience is how long the server may take to answer anything before the connection is given up. It bounds how long a
// call can hang on a server that is gone.
const patience = 5 * time.Second

// A conn is a connection whose requests are answered in order. Many goroutines use it at once; what they ask at the same
// time travels together.
//
// One at a time reads the answers:
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
// When many have waited at once, the reader reads on for some calls after all have been answered: they come again.
//
// The reader is a goroutine of the connection. It is the one who notices that an idle connection breaks. A caller that reads
// for itself is not woken by another goroutine: a lock and unlock takes 23 µs (median), and took 125 where the reader always
// read, beside 115 for gomemcache's add and delete in the same minute (cd proof/bench && go run . -store=memcached -only='^alone$').
type conn struct {
	sock   net.Conn
	in     *bufio.Reader // only the current reader uses it
	part   *partial      // its source
	saved  []byte        // the caller's that reads: what had come
	number uint64        // of the link's connections it is this one, counted from 1
	clock  clock         // the clock of the process at the other end
	facts  *facts
	kick   chan struct{} // has room for one: there is something to write
	turn   chan struct{} // has room for one: the reader is to read
	broken chan struct{} // closed when it is
	work   sync.WaitGroup

	mu        sync.Mutex // guards what follows
	out       []byte     // to be written
	spare     []byte
	writing   bool    // somebody writes now
	calls     []*call // whose answers are to come, in order
	who       who     // reads
	batchLeft int     // how often the reader reads on although nobody waits
	used      bool    // somebody asked since the reader last looked
	ended     bool    // the caller that reads is to give up
	asks      *call   // whose context is being asked; nil if none is
	err       error   // why it broke
}

// A who is one who reads.
type who int

const (
	nobody who = iota
	caller     // the one call that there was when it was sent
	reader
)

// lookEvery is how often the reader looks, while it does not read, whether the connection is idle, or the caller that reads has
// to give up.
const lookEvery = 20 * time.Millisecond

// While more than few calls wait at once, and for batchAfter calls afterwards, the reader is the one who reads.
const (
	few        = 4
	batchAfter = 16
)

// small is the length of a request in bytes that a socket takes without waiting if nothing is on its way.
const small = 16 << 10

// A call is some requests that are sent in one piece, and their answers.
type call struct {
	want    int // answers
	replies []reply
	sent    bool // it may have reached the server; guarded by the connection's mu
	ctx     context.Context
	begun   time.Time
	done    chan struct{} // closed when it has all answers, or the connection broke
	err     error
}

// newConn starts to serve a connection, whose reader looks so often.
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
		c.sendLocked(requests) // waking the writer would take as long as a good part of the round trip
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

// ended returns the error of a call that got no answer.
func (k *call) ended(err error) error {
	if !k.sent {
		return &unsent{err}
	}
	return err
}

// sendLocked writes. The mutex is free meanwhile, and nobody else writes.
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

// write writes what there is, until the connection is broken.
func (c *conn) write() {
	for {
		select {
		case <-c.kick:
		case <-c.broken:
			return
		}
		c.mu.Lock()
		if !c.writing && len(c.out) > 0 { // else who writes wakes us after
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

// read hands out answers when nobody else reads, until the connection is broken.
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

// takeReading makes the reader the one who reads if the connection is idle, and reports whether it did. A caller that reads is told to
// give up when its context has ended, or when the server has been silent for too long.
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

// checkContext stops a caller that reads if its context has ended. The context's methods are its owner's, and may
// call over this connection: so no call waits for them.
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

// handOnLocked makes the reader the one who reads.
func (c *conn) handOnLocked() {
	c.who = reader
	deadline := time.Now().Add(patience)
	if len(c.calls) > 0 && c.ended {
		deadline = c.calls[0].begun.Add(patience)
	}
	c.ended = false
	c.sock.SetReadDeadline(deadline)
	c.turn <- struct{}{} // it does not read, and takes it before it is who reads again
}

// readFor reads the answers of the only call that there was, in the goroutine of its caller, unless the reader has to go on.
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

// answeredLocked notes that the first of the calls has all its answers. Only the one who reads calls it.
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

// readWhole reads a call's answers if they have come. The error is errInPart if only a part has come; that can be
// read again.
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

// hand hands an answer to the first of the calls. It reports whether the reader goes on to read.
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

// A partial is the source from which a connection is read. With no, only buffered data are read.
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

// misreadLocked breaks the connection: the server has not understood a request, and may read the rest as something
// else.
func (c *conn) misreadLocked(k *call, r *reply) {
	if len(k.replies) == 0 {
		k.err = r.failure() // nothing of it was done
		c.calls = c.calls[1:]
		close(k.done)
	}
	c.closeWith(errors.New("memcached did not understand a request"))
}

// fail breaks the connection, for this reason unless there was one before.
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
