// Package memcached keeps locks in memcached 1.6.10 or newer, on one server.
//
// The locks of this package are for saving work, not for correctness: a cache forgets. A restart of the server, a flush, and
// eviction, unless the server runs with -M, end every lease at once. Their holders notice at their next renewal; until then
// another claim may hold. Tickets are no fencing tokens.
//
// Importing it registers the scheme "memcached"; see [Open] for its URLs.
package memcached

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/casqueue"
)

// A Driver keeps the queue of each name as one value, which it swaps if nobody else has changed it: it is the driver of
// package casqueue over memcached. Taking a lock costs one round trip, and releasing it one, if this client was the last to
// change the name. Otherwise they usually cost two.
//
// The server's clock judges leases. A value is stored with the second of that clock at which it ends, so each read shows the
// clock, to the second, by the value's remaining time.
type Driver struct {
	*casqueue.Driver // its methods, except those that change a queue
	exchanger        *exchanger
	alarm            *alarm
}

var _ interface {
	driver.Driver
	driver.Lister
	driver.Watcher
	driver.Breaker
	driver.Alerter
} = (*Driver)(nil)

func newDriver(l *link, prefix string) *Driver {
	s := &exchanger{link: l, prefix: prefix}
	return &Driver{Driver: casqueue.NewExchanging(s), exchanger: s, alarm: &l.alarm}
}

// Enter is [driver.Driver].
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	d.exchanger.fresh(ctx)
	p, err := d.Driver.Enter(ctx, c)
	if err != nil || p.Ticket != 0 {
		d.alarm.note(c, err)
	}
	return p, err
}

// Renew is [driver.Driver].
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	d.exchanger.fresh(ctx)
	renewals := d.Driver.Renew(ctx, cs)
	for i, c := range cs {
		d.alarm.note(c, renewals[i].Err)
	}
	return renewals
}

// Leave is [driver.Driver].
func (d *Driver) Leave(ctx context.Context, l *driver.Release) error {
	d.exchanger.fresh(ctx)
	err := d.Driver.Leave(ctx, l)
	d.alarm.drop(l.Claim.ID)
	return err
}

// Break is [driver.Breaker].
func (d *Driver) Break(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	d.exchanger.fresh(ctx)
	return d.Driver.Break(ctx, b)
}

// Alert is [driver.Alerter]: claims are in danger when the server was restarted.
func (d *Driver) Alert(endangered func(ids ...string)) { d.alarm.set(endangered) }

// promise returns the traits of a server.
func promise(f *facts) driver.Traits {
	t := driver.Traits{
		Store: "memcached", Server: "memcached " + f.version, Clock: "server", Wake: "poll",
		MinTTL: 3 * time.Second, MaxTTL: driver.MaxTTL,
	}
	if f.evicts {
		t.Unfit("-M", "When memory is full the server drops what was not used for long, "+
			"claims among them, and another can hold the lock.")
	}
	t.Note("A restart or a flush of the server ends all leases at once, and their holders find out at their next renewal: " +
		"use these locks to save work, not for correctness.")
	t.Note("Leases are whole seconds: what a holder left without a word is free up to four seconds late.")
	return t
}

// DefaultPrefix begins the keys of all locks, unless the URL says otherwise.
const DefaultPrefix = "stile/"

// maxKey is the server's limit for a key, in bytes.
const maxKey = 250

// hashed begins the key of a long name; no name is encoded with it.
const hashed = "#"

// digest replaces a name that cannot be a key.
func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hashed + base64.RawURLEncoding.EncodeToString(sum[:])
}
