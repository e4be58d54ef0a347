package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"time"
)

// maxFrame is longer than any frame of a server, which limits requests to a megabyte.
const maxFrame = 64 << 20

// replyHeader is the length of an answer's header.
const replyHeader = 16

// The protocol's numbers of frames that do not answer a call.
const (
	xidEvent int32 = -1
	xidPing  int32 = -2
	xidAuth  int32 = -4
)

// A conn is one connection, after the handshake. Calls are answered in the order in which they were sent.
type conn struct {
	net.Conn
	s        *Session
	in       *bufio.Reader
	patience time.Duration // silence after which the connection is given up
	watches  watches
	ended    chan struct{} // closed when reading has ended

	mu      sync.Mutex // guards what follows
	out     []byte     // frames to write
	xid     int32
	waiting []*Call       // calls without an answer yet, in order
	late    *time.Timer   // runs listen while calls wait; nil if there is no other server
	oldest  int32         // the xid of the call that had waited longest when listen last ran; 0 if late does not run
	looked  time.Duration // when listen last ran
	silent  bool          // listen has ended the connection
	pings   []time.Duration
	err     error         // why the connection is over
	kick    chan struct{} // holds one element
}

// greeting is the content of a handshake.
type greeting struct {
	timeout  time.Duration
	id       int64
	password string
}

// shake sends the handshake and reads the answer.
func (c *conn) shake(zxid int64, want *greeting) (*greeting, error) {
	body := putInt(nil, 0) // version
	body = putLong(body, zxid)
	body = putInt(body, int32(want.timeout.Milliseconds()))
	body = putLong(body, want.id)
	password := want.password
	if password == "" {
		password = string(make([]byte, 16))
	}
	body = putText(body, password)
	body = putBool(body, true) // so that a read-only server says so
	if _, err := c.Write(append(putInt(nil, int32(len(body))), body...)); err != nil {
		return nil, err
	}
	frame, err := c.frame()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the server closed the connection at once: it has no quorum, or is behind")
	}
	if err != nil {
		return nil, err
	}
	r := reader{b: frame}
	if len(frame) == replyHeader { // a refusal, in the form of an answer to a request
		r.int()
		r.long()
		if code := Code(r.int()); code != notReadOnly {
			return nil, code
		}
		return nil, ErrReadOnly
	}
	r.int() // version
	got := &greeting{timeout: time.Duration(r.int()) * time.Millisecond, id: r.long(), password: r.text()}
	if r.err != nil {
		return nil, r.err
	}
	if len(r.b) > 0 && r.bool() {
		return nil, ErrReadOnly
	}
	if got.timeout <= 0 || got.id == 0 {
		return nil, ErrExpired
	}
	return got, nil
}

func (c *conn) frame() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(c.in, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxFrame {
		return nil, fmt.Errorf("the server sent a frame of %d bytes: this is not zookeeper", n)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(c.in, frame)
	return frame, err
}

// hasFrame reports whether the next frame has been received, so that reading it does not wait.
func (c *conn) hasFrame() bool {
	const header = 4
	if c.in.Buffered() < header {
		return false
	}
	length, err := c.in.Peek(header)
	return err == nil && int64(c.in.Buffered()-header) >= int64(binary.BigEndian.Uint32(length))
}

// send queues calls for writing, in order. With an error none of them was queued.
func (c *conn) send(calls []*Call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	now := Now()
	for _, call := range calls {
		if call.watch != nil {
			c.watches.add(c, call)
		}
		c.xid++
		if c.xid < 0 { // negative xids have other meanings
			c.xid = 1
		}
		call.xid, call.sent = c.xid, now
		c.putLocked(c.xid, call.op, call.body)
		c.waiting = append(c.waiting, call)
	}
	if c.late != nil && c.oldest == 0 {
		c.oldest = noCall
		c.late.Reset(silenceLimit / 2)
	}
	c.wake()
	return nil
}

// silenceLimit is how long a server may leave calls unanswered if there is another server. A frozen server does not reset
// the connection.
const silenceLimit = time.Second

// noCall is an xid that no call has.
const noCall int32 = -1

// listen ends the connection if calls wait and none was answered since its last run.
func (c *conn) listen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || len(c.waiting) == 0 {
		c.oldest = 0
		return
	}
	now, oldest := Now(), c.waiting[0].xid
	stood := now-c.looked > silenceLimit // this process was stopped, and the answer may have arrived
	if oldest == c.oldest && !stood && c.s.mayLeave(now) {
		c.silent = true
		c.Close() // which ends the reading
		return
	}
	c.oldest, c.looked = oldest, now
	c.late.Reset(silenceLimit / 2)
}

// ping asks the server for a sign of life.
func (c *conn) ping() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.pings = append(c.pings, Now())
		c.putLocked(xidPing, opPing, nil)
		c.wake()
	}
}

// putLocked appends a frame to the output.
func (c *conn) putLocked(xid, op int32, body []byte) {
	c.out = putInt(c.out, int32(8+len(body)))
	c.out = append(putInt(putInt(c.out, xid), op), body...)
}

func (c *conn) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// batchFrom is the number of calls in flight from which on more calls are likely to follow at once.
const batchFrom = 8

// write writes the queued frames until the connection is over. Frames that many goroutines send at once travel together:
// from batchFrom calls in flight on, write first yields to the goroutines that are ready to run, so that they can send
// theirs. This and the fewer read deadlines save 14 % of the server's processor and 8 % of the client's for 64 goroutines on
// 64 names.
func (c *conn) write() {
	var spare []byte
	for {
		select {
		case <-c.kick:
		case <-c.ended:
			return
		}
		c.mu.Lock()
		if len(c.waiting) >= batchFrom {
			c.mu.Unlock()
			runtime.Gosched()
			c.mu.Lock()
		}
		out := c.out
		c.out = spare[:0]
		c.mu.Unlock()
		spare = out
		if len(out) == 0 {
			continue
		}
		if err := c.SetWriteDeadline(time.Now().Add(c.patience)); err == nil {
			_, err = c.Write(out)
			if err != nil {
				c.Close() // which ends the reading, and with it the connection
				return
			}
		}
	}
}

// serve reads until the connection is over, and returns the reason.
func (c *conn) serve() error {
	var writing sync.WaitGroup
	writing.Go(c.write)
	err := c.read()
	c.Close()
	close(c.ended)
	writing.Wait()
	c.mu.Lock()
	if c.silent || errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSilent
	}
	c.err = err
	lost := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	for _, call := range lost {
		call.fate = &Broken{err}
		if errors.Is(err, ErrRefused) || errors.Is(err, ErrExpired) {
			call.fate = err
		}
		close(call.done)
	}
	c.watches.end()
	return err
}

func (c *conn) read() error {
	for {
		if !c.hasFrame() {
			if err := c.SetReadDeadline(time.Now().Add(c.patience)); err != nil {
				return err
			}
		}
		frame, err := c.frame()
		if err != nil {
			return err
		}
		r := reader{b: frame}
		xid, zxid, code := r.int(), r.long(), Code(r.int())
		if r.err != nil {
			return r.err
		}
		switch xid {
		case xidEvent:
			kind, _, path := r.int(), r.int(), r.text()
			c.watches.event(kind, path)
			continue
		case xidPing:
			c.mu.Lock()
			var sent time.Duration
			if len(c.pings) > 0 {
				sent, c.pings = c.pings[0], c.pings[1:]
			}
			c.mu.Unlock()
			c.s.heard(zxid, sent, false)
			continue
		case xidAuth:
			if code != 0 {
				return ErrRefused
			}
			continue
		}
		if err := c.answer(xid, zxid, code, r.b); err != nil {
			return err
		}
	}
}

// answer hands an answer to the call that has waited longest.
func (c *conn) answer(xid int32, zxid int64, code Code, body []byte) error {
	c.mu.Lock()
	if len(c.waiting) == 0 || c.waiting[0].xid != xid {
		c.mu.Unlock()
		return errors.New("the server answered what it was not asked")
	}
	call := c.waiting[0]
	c.waiting[0] = nil
	c.waiting = c.waiting[1:]
	c.mu.Unlock()
	defer close(call.done)
	switch faults[code].then {
	case expires:
		call.fate = ErrExpired
		return ErrExpired
	case isRefused:
		call.fate = ErrRefused
		return ErrRefused
	case moves:
		call.fate = &Broken{code}
		return code
	case goesOn:
	}
	// A refusal that the server made by itself, before it asked the other servers, shows nothing of a quorum.
	c.s.heard(zxid, call.sent, call.agreed && code != Throttled && code != Unimplemented)
	call.answered(code, body)
	if call.watch != nil && code != 0 && (call.op != opExists || code != NoNode) {
		call.watch.Drop() // the server has not set it
	}
	return call.fate
}
