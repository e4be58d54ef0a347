// Package conn is the connection to the servers: it dials them, asks for their promises, runs scripts on them, and explains
// their errors. The layouts of locks use it, and do not know how it works.
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
	alone  bool    // user has no password, and so may itself be a password
	secret []string

	// The servers' abilities, as they answered when the Conn was made.
	sharded  bool   // a cluster whose channels are on one server each
	mute     bool   // they report no changes of keys
	allowOOM bool   // a script can ask to run although the memory is full
	store    string // the kind of servers, in one word
	promised promise.Promise

	tracker *tracker
	down    atomic.Bool // the last call found no connection

	*work.Life // ends when the Conn is closed
}

// New returns a Conn over the caller's client, and asks the servers for their promises. Closing the Conn does not close the
// client.
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

// Traits returns the promises that all servers make to every layout. The servers are asked again after a reconnection, after
// a failover, and from time to time.
func (c *Conn) Traits() driver.Traits { return c.promised.Traits() }

// arrivals returns a counter that rises when requests may go to another server: when a connection is made, or the primary
// changes. The connection to a new primary is counted first: the library asks a server for its role before it sends requests
// there, and the old primary answers meanwhile. The connections of the caller's own client are not counted.
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

// ReportsChanges reports whether the servers report changes of keys. The Conn does not use such reports in a cluster.
func (c *Conn) ReportsChanges() bool { return !c.mute && c.client.Mode() != rueidis.ClientModeCluster }

// Close ends every call. It closes the client too, unless it is the caller's own. Twice is harmless.
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
