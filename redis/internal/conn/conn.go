// Package conn is the connection to the servers: it dials them, asks what they can promise, runs scripts on them, and says
// what their errors mean. The layouts of locks are made over it, and know nothing of how it is done.
package conn

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// A Conn is the connection to one server, to the primary behind Sentinel, or to a cluster. Its methods may be called at
// once.
type Conn struct {
	client rueidis.Client
	dialer *dialer // makes the connections of a client that the Conn owns; nil if the client is the caller's
	user   string  // for messages
	secret []string

	// What the servers can do, as they answered when the Conn was made.
	sharded  bool // a cluster whose channels are on one server each
	mute     bool // they cannot tell of changes of keys
	allowOOM bool // a script can ask to run although the memory is full
	traits   driver.Traits

	tracker *tracker
	down    atomic.Bool // the last call found no connection

	ctx    context.Context // ends when the Conn is closed
	cancel context.CancelFunc
	mu     sync.Mutex // orders Go before the wait in Close
	tasks  sync.WaitGroup
}

// New returns a Conn over the caller's client, and asks the servers for what they can promise. Closing the Conn does not
// close the client.
func New(ctx context.Context, client rueidis.Client) (*Conn, error) {
	c := newConn()
	c.client, c.traits.Store = client, "redis"
	if err := c.probe(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func newConn() *Conn {
	c := &Conn{}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.tracker = &tracker{c: c}
	return c
}

// Context ends when the Conn is closed.
func (c *Conn) Context() context.Context { return c.ctx }

// Traits returns what the servers promise to every layout, the weakest server deciding.
func (c *Conn) Traits() driver.Traits { return c.traits }

// Sharded reports whether the servers are a cluster whose channels are on one server each.
func (c *Conn) Sharded() bool { return c.sharded }

// Tells reports whether the servers tell of changes of keys, which those of a cluster are not asked for.
func (c *Conn) Tells() bool { return !c.mute && c.client.Mode() != rueidis.ClientModeCluster }

// Close ends every call. It closes the client too, unless that is the caller's own. Twice is harmless.
func (c *Conn) Close() {
	// After this no goroutine is begun: Go looks under the same lock. So the wait below misses none.
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	if c.dialer != nil {
		c.dialer.close()
		if c.client != nil {
			c.client.Close()
		}
	}
	c.tasks.Wait()
}

// Go runs f in a goroutine that Close waits for; f must end when Context does. It reports false if the Conn is closed.
func (c *Conn) Go(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.tasks.Go(f)
	return true
}
