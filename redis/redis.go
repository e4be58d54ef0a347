// Package redis keeps locks in Redis or Valkey: one server, servers behind Sentinel, or a cluster.
//
// A name is one key, which holds the whole queue and expires with its last claim. Each verb is one script, so one round
// trip; the script that changes a queue wakes exactly the clients whose claims hold because of it. Times are the
// server's. Importing the package registers the schemes redis, rediss, redis+sentinel, rediss+sentinel, redis+cluster
// and rediss+cluster; redlock and redlocks, for a quorum of independent servers; and tair and tairs.
//
// A user of the server needs these rights, with the prefix in place of stile/. Without the last one, a watch is not told
// of changes but looks four times a second:
//
//	ACL SETUSER locks on >… ~stile/* &stile/* +evalsha +eval +script|load +get +set +del +type +time
//	    +publish +spublish +subscribe +ssubscribe +unsubscribe +sunsubscribe +ping +info +config|get +scan +role
//	    +client|tracking
//
// and in a cluster +cluster|slots +cluster|shards as well. A Sentinel with users needs, for sentinel_user,
//
//	+sentinel|get-master-addr-by-name +sentinel|sentinels +subscribe +psubscribe +unsubscribe +punsubscribe +ping &*
package redis

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// DefaultPrefix is what keys and channels begin with.
const DefaultPrefix = "stile/"

// Options change how a [Driver] uses its client. Nil means the defaults, and so does the zero of each field.
type Options struct {
	Prefix string // what keys and channels begin with; without braces
}

// A Driver keeps locks in Redis. Its methods may be called at once.
type Driver struct {
	client rueidis.Client
	dialer *dialer // makes the connections of a client that the driver owns; nil if the client is the user's
	user   string  // for messages
	secret []string

	prefix string

	// What the servers can do.
	sharded  bool // a cluster whose channels are on one server each
	mute     bool // they cannot tell of changes of keys
	allowOOM bool // a script can ask to run although the memory is full

	scripts *scripts
	traits  driver.Traits
	mail    *mail
	tracker *tracker

	down   atomic.Bool // the last call found no connection
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex // orders spawn before the wait in Close
	tasks  sync.WaitGroup
}

var _ interface {
	driver.Driver
	driver.Lister
	driver.Watcher
	driver.Breaker
} = (*Driver)(nil)

// New returns a driver that uses the caller's client, and asks the server for what it can promise. Closing the driver
// does not close the client. Retries by the client are harmless: a claim's id makes each request repeatable.
func New(client rueidis.Client, o *Options) (*Driver, error) {
	if o == nil {
		o = &Options{}
	}
	d, err := newDriver(client, o.Prefix)
	if err != nil {
		return nil, err
	}
	if err := d.probe(context.Background()); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

func newDriver(client rueidis.Client, prefix string) (*Driver, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if strings.ContainsAny(prefix, "{}") {
		return nil, driver.Refused(errors.New("the prefix must not have braces: a cluster takes them for its own"))
	}
	d := &Driver{client: client, prefix: prefix}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.mail, d.tracker = newMail(d), newTracker(d)
	return d, nil
}

// key is where the queue of a name is kept. Its hash tag is the whole encoded name.
func (d *Driver) key(name string) string {
	return d.prefix + "{" + driver.EncodeName(name) + "}"
}

// channel is where the client of a claim is told. In a cluster with sharded channels it has the key's hash tag, so that
// message and key are on the same server.
func (d *Driver) channel(key string, c *driver.Claim) string {
	if d.sharded {
		return d.prefix + "inbox/" + key[len(d.prefix):] + "/" + c.Client
	}
	return d.prefix + "inbox/" + c.Client
}

// Traits tells what the server can promise, as it answered when the driver was made.
func (d *Driver) Traits() driver.Traits {
	return d.traits
}

// Close ends every call. It closes the client too, unless that is the caller's own.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.cancel()
	d.mu.Unlock()
	if d.dialer != nil {
		d.dialer.close()
		d.client.Close()
	}
	d.tasks.Wait()
	return nil
}

// spawn runs f in a goroutine that Close waits for; f must end when d.ctx does. It reports false if d is closed.
func (d *Driver) spawn(f func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return false
	}
	d.tasks.Go(f)
	return true
}

func micros(t time.Duration) int64 { return t.Microseconds() }
