// Package conn is the connection to the servers: it dials them, asks for their promises, runs scripts on them, and explains
// their errors. The layouts of locks use it, and know nothing of how it works.
package conn

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/promise"
	"github.com/stilelock/stile/internal/work"
)

// A Conn is the connection to one server, to the primary behind Sentinel, or to a cluster. Its methods may be called at
// once.
type Conn struct {
	client rueidis.Client
	dialer *dialer // makes the connections of a client that the Conn owns; nil if the client is the caller's
	user   string  // for messages
	alone  bool    // user came without a password, and may be a password
	secret []string

	// The servers' abilities, as they answered when the Conn was made.
	sharded  bool   // a cluster whose channels are on one server each
	mute     bool   // they do not report changes of keys
	allowOOM bool   // a script can ask to run although the memory is full
	store    string // the kind of servers, in a word
	promised promise.Promise

	tracker *tracker
	down    atomic.Bool // the last call found no connection

	*work.Life // ends when the Conn is closed
}

// New returns a Conn over the caller's client, and asks the servers for what they can promise. Closing the Conn does not
// close the client.
func New(ctx context.Context, client rueidis.Client) (*Conn, error) {
	if client.Mode() == rueidis.ClientModeSentinel && len(client.Nodes()) > 1 {
		return nil, driver.Refused(errors.New("the client sends some requests to replicas (SendToReplicas): " +
			"a lock needs one that sends all of them to the primary"))
	}
	c := newConn()
	c.client, c.store = client, "redis"
	if err := c.probe(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func newConn() *Conn {
	c := &Conn{Life: work.Begin()}
	c.tracker = &tracker{c: c}
	c.promised.Life, c.promised.Connections, c.promised.Ask = c.Life, c.arrivals(), c.askTraits
	return c
}

// Traits returns the promises of the servers to every layout, the weakest server deciding. They are read again after
// a reconnection, after a failover, and now and then.
func (c *Conn) Traits() driver.Traits { return c.promised.Traits() }

// arrivals returns a counter of how often requests came to go elsewhere: on a connection that was made, or to another
// primary. The connection to a new primary is counted first: the library asks a server for its role before requests
// go to it. The old primary answers meanwhile. The connections of the caller's own client are not seen.
func (c *Conn) arrivals() func() int64 {
	var primary string
	var moves int64
	return func() int64 {
		if now := c.primary(); now != primary {
			primary = now
			moves++
		}
		if c.dialer != nil {
			return c.dialer.made.Load() + moves
		}
		return moves
	}
}

// Sharded reports whether the servers are a cluster whose channels are on one server each.
func (c *Conn) Sharded() bool { return c.sharded }

// ReportsChanges reports whether the servers report changes of keys. The servers of a cluster are not asked to.
func (c *Conn) ReportsChanges() bool { return !c.mute && c.client.Mode() != rueidis.ClientModeCluster }

// Close ends every call. It closes the client too, unless that is the caller's own. Twice is harmless.
func (c *Conn) Close() {
	c.End()
	if c.dialer != nil {
		c.dialer.close()
		if c.client != nil {
			c.client.Close()
		}
	}
	c.Wait()
}
