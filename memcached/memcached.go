// Package memcached keeps locks in memcached 1.6.10 or newer, on one server.
//
// The locks of this package are for saving work, not for correctness: a cache forgets. A restart of the server, a flush,
// and eviction, unless the server runs with -M, end every lease at once, and their holders find out at their next
// renewal; until then another may hold. Tickets are no fencing tokens.
//
// Importing it registers the scheme "memcached"; see [Open] for its URLs.
package memcached

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
)

// A Driver keeps the queue of each name as one value, which it swaps if nobody else has changed it. It implements
// [driver.Driver], [driver.Lister], [driver.Breaker] and [driver.Alerter].
//
// The server's clock judges leases. A value is stored with the second of that clock at which it ends, so what is left of
// it tells what the clock shows, to the second, with every read.
type Driver struct {
	link   *link
	prefix string
	slots  slots
	rooms  rooms
}

var _ interface {
	driver.Driver
	driver.Lister
	driver.Breaker
	driver.Alerter
} = (*Driver)(nil)

func newDriver(l *link, prefix string) *Driver {
	d := &Driver{link: l, prefix: prefix, slots: slots{name: map[string]*slot{}}}
	d.rooms.open(d)
	return d
}

// Enter is one round trip when the name is free or was last changed by this client, and mostly two when not.
func (d *Driver) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if !utf8.ValidString(c.ID + c.Client + c.Owner) {
		return driver.Place{}, driver.Refused(errors.New("an id, a client and an owner must be UTF-8"))
	}
	for tries := 0; ; tries++ {
		var (
			tried driver.Place
			at    moment
		)
		after, err := d.change(ctx, c.Name, func(q *driver.Queue, m moment) (err error) {
			last := q.Last
			at = m
			tried, err = q.Enter(m.now, m.stamp(), m.stretch(c))
			if q.Last != last {
				q.Entries[len(q.Entries)-1].Since = m.stamp()
			}
			return err
		})
		if err != nil && tries > 0 {
			return driver.Place{}, driver.Afterwards(err)
		}
		if err != nil {
			return driver.Place{}, err
		}
		if tried.Ticket == 0 {
			tried.Retry, tried.Blocker = 0, shown(tried.Blocker)
			return tried, nil
		}
		p, told, err := after.place(c, at)
		short := p.TTL < min(c.TTL, c.Wait)/2
		if err != nil || tries == 2 || !short && (told || !p.Holds) {
			d.link.alarm.note(c.ID, err)
			return p, err
		}
		// It came to hold by another's expiry and has not been told so in the store, or what was known of the server's
		// clock was far too little. Both are put right by entering again.
	}
}

// Renew sends the renewals of all names at once.
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	renewals := make([]driver.Renewal, len(cs))
	names := map[string][]int{}
	for i, c := range cs {
		names[c.Name] = append(names[c.Name], i)
	}
	var work sync.WaitGroup
	for name, list := range names {
		work.Go(func() { d.renew(ctx, name, cs, list, renewals) })
	}
	work.Wait()
	return renewals
}

// renew renews those claims of a list that are of one name.
func (d *Driver) renew(ctx context.Context, name string, cs []*driver.Claim, list []int, renewals []driver.Renewal) {
	var at moment
	after, err := d.change(ctx, name, func(q *driver.Queue, m moment) error {
		at = m
		alive := false
		for _, i := range list {
			_, renewals[i].Err = q.Renew(m.now, m.stretch(cs[i]))
			alive = alive || renewals[i].Err == nil
		}
		if !alive {
			return driver.ErrGone
		}
		return nil
	})
	for _, i := range list {
		r := &renewals[i]
		if err != nil {
			r.Err = err
		}
		if r.Err == nil {
			var p driver.Place
			p, _, r.Err = after.place(cs[i], at)
			r.TTL = p.TTL
		}
		d.link.alarm.note(cs[i].ID, r.Err)
	}
}

// Leave is one round trip when this client was the last to change the name, and mostly two when not.
func (d *Driver) Leave(ctx context.Context, l *driver.Departure) error {
	_, err := d.change(ctx, l.Claim.Name, func(q *driver.Queue, m moment) error {
		longer := *l
		if l.Keep > 0 {
			longer.Keep = m.last(l.Keep)
		}
		return q.Leave(m.now, &longer)
	})
	d.link.alarm.drop(l.Claim.ID)
	return err
}

// Alert is [driver.Alerter]: claims are in danger when the server was restarted.
func (d *Driver) Alert(endangered func(ids ...string)) { d.link.alarm.set(endangered) }

// Break is [driver.Breaker].
func (d *Driver) Break(ctx context.Context, b *driver.Breakage) (s driver.Standing, err error) {
	_, err = d.change(ctx, b.Name, func(q *driver.Queue, m moment) (err error) {
		s, err = q.Break(m.now, b.Ticket)
		return err
	})
	return s, err
}

// Close is [driver.Driver].
func (d *Driver) Close() error {
	d.rooms.close()
	d.link.close()
	return nil
}

// place tells where a claim stands that asked for a lease at some moment, and whether it was told so if it holds.
func (s *snapshot) place(c *driver.Claim, at moment) (p driver.Place, told bool, err error) {
	q := s.clone()
	if p, err = q.Look(s.micros(), c.ID); err != nil {
		return driver.Place{}, false, err
	}
	e := q.Entries[p.Ahead]
	asked := c.Wait
	if p.Holds {
		asked = c.TTL
	}
	// The clock shows whole seconds: up to one more has passed.
	p.TTL = time.Duration(e.Ends-(max(s.now, s.conn.clock.least())+1)*second) * time.Microsecond
	if longest := at.now + int64(at.last(asked)/time.Microsecond); e.Ends <= longest+2*second {
		p.TTL = min(p.TTL, asked)
	} // else it has a longer lease from before
	p.TTL = max(p.TTL, 0)
	p.Retry = 0 // whoever waits looks at the server's clock
	p.Blocker = shown(p.Blocker)
	return p, e.Told, nil
}

// shown returns a claim as it is shown to people: with the lease that was asked for, not the longer one that was given.
func shown(s driver.Standing) driver.Standing {
	if s.Remaining > 0 {
		s.Remaining = max(s.Remaining-2*time.Second, time.Millisecond)
	}
	s.Since = max(s.Since, 0)
	return s
}

// Traits is [driver.Driver].
func (d *Driver) Traits() driver.Traits {
	t := promise(d.link.facts())
	t.Ordered, t.Shared, t.Permits, t.Delay = true, true, true, true
	f := d.link.facts()
	if !f.evicts {
		t.Notes = append(t.Notes, "When memory is full the server refuses to store, renewals among the rest, and a lease that "+
			"cannot be renewed is lost: give it more memory than it needs (-m).")
	}
	if f.largest > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("All claims of a name are one value, of %d bytes at most: a claim that does not fit "+
			"is refused (option -I of memcached).", f.largest))
	}
	return t
}

// promise says what a server is good for.
func promise(f *facts) driver.Traits {
	t := driver.Traits{
		Store: "memcached", Clock: "server", Wake: "poll",
		MinTTL: 3 * time.Second, MaxTTL: driver.MaxTTL, Granularity: time.Second,
	}
	if f.evicts {
		t.Notes = append(t.Notes, "When memory is full the server drops what was not used for long, claims among them, and another can hold the lock: run it with -M.")
	}
	t.Notes = append(t.Notes,
		"A restart or a flush of the server ends all leases at once, and their holders find out at their next renewal: use these locks to save work, not for correctness.",
		"Leases are whole seconds: what a holder left without a word is free up to three seconds late.")
	return t
}

// DefaultPrefix begins the keys of all locks, unless the URL says otherwise.
const DefaultPrefix = "stile/"

// maxKey is the length of a key in bytes that the server takes.
const maxKey = 250

// key returns the key of a name. A long name goes by its SHA-256; the value has the name in full.
func (d *Driver) key(name string) string {
	key := d.prefix + driver.EncodeName(name)
	if len(key) <= maxKey {
		return key
	}
	return d.prefix + digest(name)
}

// hashed begins what a long name goes by; no name is encoded with it.
const hashed = "#"

// digest is what a name goes by that cannot be a key.
func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hashed + base64.RawURLEncoding.EncodeToString(sum[:])
}
