// Package redis keeps locks in Redis or Valkey: one server, servers behind Sentinel, or a cluster.
//
// A name is one key. The key holds the whole queue and expires with its last claim. A long queue is changed in place, so a
// change costs the same for any number of waiting claims. Each verb is one script, so one round trip. Renewals of many names
// are one script for 32 names, except in a cluster. The script that changes a queue wakes exactly the clients whose claims
// hold because of the change. Times are the server's.
//
// Under redis and redis+sentinel all names must be on one server. A proxy that spreads names over several servers does not
// work there: it would send a script for 32 names to the server of the first. Use redis+cluster for several servers with
// parts of the names.
//
// Importing the package registers the schemes redis, rediss, redis+sentinel, rediss+sentinel, redis+cluster and
// rediss+cluster; redlock and redlocks, for a quorum of independent servers; and tair and tairs.
//
// A user of the server needs these rights, with the prefix in place of stile/. The page docs/stores/redis.md says
// what is lost without some of them. Without the last one, a watch gets no reports of changes but reads four times a
// second:
//
//	ACL SETUSER locks on >… ~stile/* &stile/* +evalsha +eval +script|load +get +mget +set +del +type +time
//	    +getrange +setrange +pexpire +publish +spublish +subscribe +ssubscribe +unsubscribe +sunsubscribe +ping +info
//	    +config|get +scan +role +client|tracking
//
// and in a cluster +cluster|slots +cluster|shards as well. A Sentinel with users needs, for sentinel_user,
//
//	+sentinel|get-master-addr-by-name +sentinel|sentinels +subscribe +psubscribe +unsubscribe +punsubscribe +ping &*
//
// For layout setnx a user needs, with the beginning of the names in place of ~*,
//
//	ACL SETUSER locks on >… ~* +evalsha +eval +script|load +get +set +del +type +time +pttl +pexpire
//	    +ping +info +config|get +scan +role +client|tracking
//
// and the same as above in a cluster and with Sentinel. The pages docs/stores/redlock.md and docs/stores/tair.md list the
// rights for Redlock and Tair.
package redis

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

// DefaultPrefix begins keys and channels.
const DefaultPrefix = "stile/"

// Options change how a [Driver] uses its client. Nil means the defaults, and so does the zero of each field.
type Options struct {
	Prefix string // the beginning of keys and channels; without braces
}

// New returns a driver that uses the caller's client, and asks the server for its promises. Closing the driver does not
// close the client. Retries by the client are harmless: a claim's id makes each request repeatable. A client that rueidis
// made by itself panics at an answer without a request; one of [driver.Open] gives up the connection.
func New(client rueidis.Client, o *Options) (*Driver, error) {
	prefix := ""
	if o != nil {
		prefix = o.Prefix
	}
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	c, err := conn.New(context.Background(), client)
	if err != nil {
		return nil, err
	}
	return newDriver(context.Background(), c, prefix), nil
}

// NewSetNX returns a driver that uses the caller's client, as [New] does. Keys begin with the prefix; "" means none.
func NewSetNX(client rueidis.Client, o *Options) (*SetNX, error) {
	prefix := ""
	if o != nil {
		prefix = o.Prefix
	}
	c, err := conn.New(context.Background(), client)
	if err != nil {
		return nil, err
	}
	return newSetNX(context.Background(), c, prefix), nil
}

// remove runs a script that removes a claim by hand, and returns the claim's description.
func remove(
	ctx context.Context, c *conn.Conn, s *conn.Script, key string, b *driver.BreakRequest, more ...string,
) (driver.ClaimInfo, error) {
	if err := b.Removes(); err != nil {
		return driver.ClaimInfo{}, err
	}
	a, err := c.Run(ctx, s, key, "", append([]string{number(b.Ticket)}, more...)...)
	if err != nil {
		return driver.ClaimInfo{}, err
	}
	list := a.Standings(0)
	if len(list) != 1 {
		return driver.ClaimInfo{}, c.Mixed()
	}
	return list[0], nil
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
