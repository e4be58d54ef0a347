package memcached

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// patience is how long the server may take to answer anything before the connection is given up. It bounds how long a
// call can hang on a server that is gone.
const patience = 5 * time.Second

// A conn is a connection whose requests are answered in order. Many goroutines use it at once; what they ask at the same
// time travels together.
type conn struct {
	sock   net.Conn
	number uint64 // of the link's connections it is this one, counted from 1
	clock  clock  // that of the process at the other end
	facts  *facts
	kick   chan struct{} // has room for one: there is something to write
	broken chan struct{} // closed when it is
	work   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	out     []byte     // to be written
	spare   []byte
	writing bool    // somebody writes now
	calls   []*call // whose answers are to come, in order
	err     error   // why it broke
}

// small is the length of a request in bytes that a socket takes without waiting if nothing is on its way.
const small = 16 << 10

// A call is some requests that are sent in one piece, and their answers.
type call struct {
	want    int // answers
	replies []reply
	sent    bool          // it may have reached the server; guarded by the connection's mu
	done    chan struct{} // closed when it has all answers, or the connection broke
	err     error
}

// newConn starts to serve a connection.
func newConn(sock net.Conn) *conn {
	c := &conn{sock: sock, kick: make(chan struct{}, 1), broken: make(chan struct{})}
	c.work.Go(c.write)
	c.work.Go(c.read)
	return c
}

// do sends requests and returns their answers. An [unsent] error says that nothing was sent.
func (c *conn) do(ctx context.Context, requests []byte, want int) ([]reply, error) {
	if err := driver.Ended(ctx, false); err != nil {
		return nil, &ended{err}
	}
	k := &call{want: want, done: make(chan struct{})}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, &unsent{c.err}
	}
	lone := len(c.calls) == 0
	if lone {
		c.sock.SetReadDeadline(time.Now().Add(patience))
	}
	c.calls = append(c.calls, k)
	if lone && !c.writing && len(requests) <= small {
		k.sent = true
		c.send(requests) // waking the writer would take as long as a good part of the round trip
	} else {
		c.out = append(c.out, requests...)
		c.wake()
	}
	c.mu.Unlock()
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

// send writes. The mutex must be held; it is free meanwhile, and nobody else writes.
func (c *conn) send(text []byte) {
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
			c.send(out)
			c.spare = out
		}
		c.mu.Unlock()
	}
}

// read hands out answers, until the connection is broken.
func (c *conn) read() {
	in := bufio.NewReaderSize(c.sock, 16<<10)
	for {
		r, err := readReply(in)
		if err != nil {
			c.fail(err)
			return
		}
		c.mu.Lock()
		if len(c.calls) == 0 {
			c.mu.Unlock()
			c.fail(errors.New("memcached answered without being asked"))
			return
		}
		k := c.calls[0]
		if r.status == "CLIENT_ERROR" {
			c.misread(k, &r)
			c.mu.Unlock()
			return
		}
		k.replies = append(k.replies, r)
		if len(k.replies) == k.want {
			c.calls[0] = nil
			c.calls = c.calls[1:]
			close(k.done)
		}
		deadline := time.Time{}
		if len(c.calls) > 0 {
			deadline = time.Now().Add(patience)
		}
		c.sock.SetReadDeadline(deadline)
		c.mu.Unlock()
	}
}

// misread breaks the connection: the server has not understood what it got, and may read the rest as something else. The
// mutex must be held.
func (c *conn) misread(k *call, r *reply) {
	if len(k.replies) == 0 {
		k.err = r.failure() // nothing of it was done
		c.calls = c.calls[1:]
		close(k.done)
	}
	c.end(errors.New("memcached did not understand a request"))
}

// fail breaks the connection, for this reason unless there was one before.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(err)
}

func (c *conn) end(err error) {
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
