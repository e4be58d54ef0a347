package session

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/work"
)

// A fakeServer gives locks to connections, as a real one does. It may be silent, so that what it does is not answered.
type fakeServer struct {
	t    testing.TB
	mu   sync.Mutex // guards what follows, and the connections
	had  map[string]map[*fakeConn]int
	free chan struct{} // closed when a lock is freed
	n    int           // connections so far
	says mood
	told int // how often it said what it promises

	shared map[string]bool // keys that are locked in this way
	gate   chan struct{}   // no statement is done before it is closed; nil if none awaits that
}

// A mood is how a server answers.
type mood int

const (
	answers mood = iota
	silent       // it does what it is asked, and nobody hears of that
	deaf         // it does not even do that
	refuses      // it does the half, and says no
	away         // it cannot be connected to, and nobody can ask it
)

type fakeConn struct {
	of     *fakeServer
	id     int
	given  bool          // an error says that it may never be used again
	closed bool          // this side is closed
	asked  int           // statements
	ended  chan struct{} // closed when the server has ended it
}

func newFake(t testing.TB) *fakeServer {
	return &fakeServer{t: t, had: map[string]map[*fakeConn]int{}, shared: map[string]bool{}, free: make(chan struct{})}
}

func (f *fakeServer) be(m mood) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.says = m
}

var errFake = errors.New("the server does not answer")

// A fakeClient is the server as one client sees it.
type fakeClient struct {
	*fakeServer
	life *work.Life
}

func (c fakeClient) Connect(ctx context.Context) (Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.says == away {
		return nil, driver.Unsent(driver.Unreachable(errFake))
	}
	c.n++
	return &fakeConn{of: c.fakeServer, id: c.n, ended: make(chan struct{})}, nil
}

func (c fakeClient) Gone(_ context.Context, of Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := of.(*fakeConn)
	if !conn.given && !conn.closed {
		c.t.Error("a connection that is still used is ended in the server")
	}
	if c.says != answers {
		return false
	}
	c.forget(conn)
	return true
}

// forget frees what a connection has.
func (f *fakeServer) forget(c *fakeConn) {
	for _, owners := range f.had {
		delete(owners, c)
	}
	close(f.free)
	f.free = make(chan struct{})
}

// kill ends all connections that have a key.
func (f *fakeServer) kill(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.had[key] {
		close(c.ended)
		f.forget(c)
	}
}

// owners returns how many connections have a key.
func (f *fakeServer) owners(key string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.had[key])
}

func (c fakeClient) Key(name string) string { return name }

func (c fakeClient) Traits() driver.Traits {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told++
	return driver.Traits{Store: "fake", Shared: true, OwnClient: true, Clock: "session", Wake: "poll"}
}

func (c fakeClient) Close() {
	c.life.End()
	c.life.Wait()
}

// fits reports whether nobody else has a key in another way.
func (c *fakeConn) fits(key string, shared bool) bool {
	for other := range c.of.had[key] {
		if other != c && !(shared && c.of.shared[key]) {
			return false
		}
	}
	return true
}

func (c *fakeConn) Do(ctx context.Context, steps []Step) (done []bool, alive bool, err error) {
	f := c.of
	f.mu.Lock()
	if gate := f.gate; gate != nil {
		f.mu.Unlock()
		<-gate
		f.mu.Lock()
	}
	if c.given || c.closed {
		f.t.Error("a connection is used again after an error, or its end")
	}
	c.asked++
	said := f.says
	if said == refuses && len(steps) == 0 {
		said = answers
	}
	if said == deaf || said == away {
		steps = nil
	}
	for i, d := range steps {
		owners := f.had[d.Key]
		if owners == nil {
			owners = map[*fakeConn]int{}
			f.had[d.Key] = owners
		}
		switch {
		case said == refuses && !d.Free && i%2 == 1:
			done = append(done, false)
		case d.Free:
			done = append(done, owners[c] > 0)
			if owners[c]--; owners[c] <= 0 {
				delete(owners, c)
			}
			close(f.free)
			f.free = make(chan struct{})
		case c.fits(d.Key, d.Shared):
			if owners[c]++; owners[c] > 1 {
				f.t.Errorf("key %s is locked twice on one connection", d.Key)
			}
			f.shared[d.Key] = d.Shared
			done = append(done, true)
		default:
			done = append(done, false)
		}
	}
	if said == refuses {
		f.says = answers // what undoes it is answered
		f.mu.Unlock()
		return nil, true, errors.New("the server has no room")
	}
	c.given = said != answers
	f.mu.Unlock()
	if said != answers {
		<-ctx.Done()
		return nil, false, driver.Unreachable(errFake)
	}
	return done, true, nil
}

func (c *fakeConn) Wait(ctx context.Context, key string, shared bool) error {
	over := time.After(time.Second)
	for {
		c.of.mu.Lock()
		fits, free := c.fits(key, shared), c.of.free
		c.of.mu.Unlock()
		if fits {
			return nil
		}
		select {
		case <-free:
		case <-over:
			return nil
		case <-ctx.Done():
			<-time.After(3 * time.Millisecond) // until the server has heard of that
			return ctx.Err()
		}
	}
}

func (c *fakeConn) Rest() <-chan struct{} { return c.ended }

// Close closes this side, of which a server that cannot be reached does not hear.
func (c *fakeConn) Close() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.closed = true
	if c.of.says == answers {
		c.of.forget(c)
	}
}
