package memcached

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/work"
)

// waitingTicket is the ticket of a claim that waits: the server stores nothing of it. Real tickets are larger.
const waitingTicket = 1

// A Plain keeps each lock as one value under its very name, added if there was none. Most programs that lock by memcached do
// the same, so they and stile exclude each other. It has no queue: the first to ask after a release is next. It has no
// readers and no permits. Use it to move to stile name by name, and a [Driver] otherwise.
//
// Only the holder's own value is ever renewed or deleted, by its version: a late request takes no lock from the next holder.
type Plain struct {
	link   *link
	prefix string

	mu      sync.Mutex           // guards the fields below
	endless map[string]time.Time // by claim: since when it waits for a value that never expires
	held    map[string]*sight    // by claim: the value read when it came to hold, so that it can leave in one round trip
}

var _ interface {
	driver.Driver
	driver.Lister
	driver.Breaker
	driver.Alerter
} = (*Plain)(nil)

// Traits is [driver.Driver].
func (p *Plain) Traits() driver.Traits {
	t := promise(p.link.latest().facts)
	t.Amends = true
	t.Note("Layout plain: exclusive locks only, in no order, and tokens that only tell claims apart: " +
		"a later one may be smaller.")
	return t
}

// Close is [driver.Driver].
func (p *Plain) Close() error {
	p.link.close()
	return nil
}

// key returns the key of a name: the name itself, unless the server does not accept it as a key.
func (p *Plain) key(name string) string {
	if key := p.prefix + name; len(key) <= maxKey && !strings.Contains(name, " ") {
		return key
	}
	return p.prefix + digest(name)
}

// Enter is one round trip if the name is free. The server stores nothing of a claim that does not hold: entering again is
// another attempt.
func (p *Plain) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	switch {
	case c.Weight != driver.All || c.Capacity != driver.All:
		return driver.Place{}, fmt.Errorf("%w: layout plain has neither readers nor permits", driver.ErrUnsupported)
	case c.Delay != 0:
		return driver.Place{}, fmt.Errorf("%w: layout plain has no lock-delay", driver.ErrUnsupported)
	case max(c.TTL, c.Wait) > longest:
		return driver.Place{}, errTooLong
	case !utf8.ValidString(c.ID + c.Client + c.Owner):
		return driver.Place{}, driver.Refused(errors.New("an id, a client and an owner must be UTF-8"))
	}
	place, err := p.enter(ctx, c)
	if place.Holds {
		p.link.alarm.note(c, nil)
	}
	if err == nil && !place.Holds && place.Blocker.Remaining == 0 && !c.Try {
		if p.waits(c, true) > max(c.TTL, c.Wait) {
			p.waits(c, false) // it has its answer, and does not enter again
			return driver.Place{}, fmt.Errorf("%w: key %q never expires, so whoever set it must delete it",
				driver.ErrForeign, p.key(c.Name))
		}
	} else {
		p.waits(c, false)
	}
	return place, err
}

// enter asks until the value is the claim's, or another's.
func (p *Plain) enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	for {
		place, done, err := p.attempt(ctx, c)
		if done || err != nil {
			return place, err
		}
	}
}

// attempt asks once for a place. It reports false if the value has changed meanwhile.
func (p *Plain) attempt(ctx context.Context, c *driver.Claim) (place driver.Place, done bool, err error) {
	key := p.key(c.Name)
	conn, err := p.link.get(ctx)
	if err != nil {
		return driver.Place{}, true, err
	}
	mine := &mark{Stile: layout, Name: c.Name, ID: c.ID, Client: c.Client, Owner: c.Owner, Ticket: conn.clock.micros()}
	mine.set(c.Record)
	mine.Since = mine.Ticket
	var request []byte
	if c.Ticket <= waitingTicket {
		request = appendStore(request, key, 0, expiry(c.TTL), mine.encode())
	}
	is, added, err := p.storeAndRead(ctx, conn, request, key)
	switch {
	case err != nil:
		return driver.Place{}, true, err
	case added:
		p.remember(c, is)
		return driver.Place{Ticket: mine.Ticket, Holds: true, TTL: c.TTL}, true, nil
	case is.ours(c) && !is.mark.Left:
		left, done, err := p.extend(ctx, is, key, c)
		return driver.Place{Ticket: is.mark.Ticket, Holds: err == nil, TTL: left}, done, err
	case c.Ticket > waitingTicket, is.ours(c):
		return driver.Place{}, true, driver.ErrGone
	case is.cas == 0: // it was there a moment ago
		return driver.Place{}, false, nil
	case is.reclaims(c):
		done, err := p.swap(ctx, is, key, c.TTL, mine)
		return driver.Place{Ticket: mine.Ticket, Holds: err == nil, TTL: c.TTL}, done, err
	}
	return is.behind(c), true, nil
}

// reclaims reports whether a claim replaces the present one, which belongs to the same owner and another client.
func (s *sight) reclaims(c *driver.Claim) bool {
	return c.Reclaim && c.Owner != "" && s.mark.Owner == c.Owner && s.mark.Client != c.Client && !s.mark.Left
}

// behind returns the place of a claim behind the claim of this value.
func (s *sight) behind(c *driver.Claim) driver.Place {
	place := driver.Place{Ticket: waitingTicket, TTL: c.Wait, Ahead: 1, Blocker: s.standing()}
	if c.Try {
		place.Ticket, place.TTL = 0, 0
	}
	place.Retry = place.Blocker.Remaining
	return place
}

// waits notes whether a claim waits for a value that never expires, and returns how long it has waited.
func (p *Plain) waits(c *driver.Claim, endless bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !endless {
		delete(p.endless, c.ID)
		return 0
	}
	since, ok := p.endless[c.ID]
	if !ok {
		since = time.Now()
		p.endless[c.ID] = since
	}
	return time.Since(since)
}

// renewAtOnce is how many renewals of layout plain one call has under way.
const renewAtOnce = 256

// Renew sends up to renewAtOnce renewals at a time.
func (p *Plain) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	renewals := make([]driver.Renewal, len(cs))
	work.Each(len(cs), renewAtOnce, func(i int) {
		c := cs[i]
		renewals[i].Err = p.own(ctx, c, func(is *sight, key string) (done bool, err error) {
			renewals[i].TTL, done, err = p.extend(ctx, is, key, c)
			return done, err
		})
		p.remember(c, nil) // it has another version now
		p.link.alarm.note(c, renewals[i].Err)
	})
	return renewals
}

// remember keeps the value that was read for a claim, if it is its own; nil forgets it. It returns the former value.
func (p *Plain) remember(c *driver.Claim, is *sight) *sight {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.held[c.ID]
	delete(p.held, c.ID)
	if is != nil && is.ours(c) {
		p.held[c.ID] = is
	}
	return was
}

// Leave is one round trip if the claim was not renewed, otherwise two: one to check that the lock is ours, one to delete the
// value that was read.
func (p *Plain) Leave(ctx context.Context, l *driver.Release) error {
	p.waits(l.Claim, false)
	p.link.alarm.drop(l.Claim.ID)
	if is := p.remember(l.Claim, nil); is != nil && l.Keep == 0 {
		if conn, err := p.link.get(ctx); err != nil {
			return err
		} else if conn == is.conn {
			if done, err := p.remove(ctx, is, p.key(l.Claim.Name)); done || err != nil {
				return err
			}
		}
	}
	return p.own(ctx, l.Claim, func(is *sight, key string) (bool, error) {
		if l.Keep == 0 {
			return p.remove(ctx, is, key)
		}
		if l.Keep > longest {
			return false, errTooLong
		}
		left := *is.mark
		left.Left = true
		return p.swap(ctx, is, key, l.Keep, &left)
	})
}

// own changes a claim's own value, and repeats this until nobody else has changed it meanwhile. The error is
// [driver.ErrGone] if the value is not the claim's.
func (p *Plain) own(ctx context.Context, c *driver.Claim, do func(is *sight, key string) (bool, error)) error {
	key := p.key(c.Name)
	for {
		conn, err := p.link.get(ctx)
		if err != nil {
			return err
		}
		is, _, err := p.storeAndRead(ctx, conn, nil, key)
		if err != nil {
			return err
		}
		if !is.ours(c) || is.mark.Left {
			return driver.ErrGone
		}
		if done, err := do(is, key); done || err != nil {
			return err
		}
	}
}

// extend gives a claim's own value a lease of the claim's length, unless it has a longer one, and the new record.
func (p *Plain) extend(ctx context.Context, is *sight, key string, c *driver.Claim) (time.Duration, bool, error) {
	had := is.standing().Record
	weight, record, err := c.Amended(c.Weight, had, true)
	ttl, longer := c.TTL, is.left > expiry(c.TTL)
	if longer {
		ttl = time.Duration(is.left-roundings) * time.Second
	}
	switch {
	case err != nil:
		return 0, false, err
	case weight != c.Weight:
		return 0, false, fmt.Errorf("%w: layout plain has no readers", driver.ErrUnsupported)
	case longer && record == had:
		return ttl, true, nil
	case ttl > longest:
		return 0, false, errTooLong
	}
	next := *is.mark
	next.set(record)
	done, err := p.swap(ctx, is, key, ttl, &next)
	return ttl, done, err
}

// Alert is [driver.Alerter]: claims are in danger when the server was restarted.
func (p *Plain) Alert(endangered func(ids ...string)) { p.link.alarm.set(endangered) }

// Break is [driver.Breaker]. It also removes a lock that another program holds.
func (p *Plain) Break(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	if err := b.Removes(); err != nil {
		return driver.ClaimInfo{}, err
	}
	key := p.key(b.Name)
	for {
		conn, err := p.link.get(ctx)
		if err != nil {
			return driver.ClaimInfo{}, err
		}
		is, _, err := p.storeAndRead(ctx, conn, nil, key)
		if err != nil {
			return driver.ClaimInfo{}, err
		}
		s := is.standing()
		if is.cas == 0 || b.Ticket != 0 && b.Ticket != s.Ticket {
			return driver.ClaimInfo{}, driver.ErrGone
		}
		if done, err := p.remove(ctx, is, key); done || err != nil {
			return s, err
		}
	}
}

// List is [driver.Lister]. For one name it shows any holder. For a prefix it shows only stile's locks, since any value in
// the cache could be another program's lock.
func (p *Plain) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	keys := []string{p.key(q.Name)}
	if q.Name == "" {
		var err error
		if keys, err = p.link.keys(ctx, func(key string) bool { return strings.HasPrefix(key, p.prefix) }); err != nil {
			return nil, err
		}
	}
	var (
		all    []driver.Listing
		failed error
	)
	err := p.link.gets(ctx, keys, func(i int, c *conn, r *reply) {
		is, err := p.see(c, keys[i], r)
		if err != nil {
			failed = p.link.explain(err)
			return
		}
		name := cmp.Or(q.Name, is.mark.Name)
		if is.cas != 0 && name != "" && strings.HasPrefix(name, q.Prefix) && p.key(name) == keys[i] {
			all = append(all, driver.Listing{Name: name, Capacity: driver.All, Claims: []driver.ClaimInfo{is.standing()}})
		}
	})
	if err := cmp.Or(err, failed); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b driver.Listing) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// longest is the longest time to live that the server does not take for a date.
const longest = 30*24*time.Hour - time.Second

var errTooLong = driver.Refused(fmt.Errorf("memcached reads a lease of 30 days or more as a date; the limit is %v", longest))

// roundings is how many seconds early the server may drop a value. Its clock shows whole seconds, and it reads the time once
// a second, a little late, so it sometimes skips a second.
const roundings = 2

// expiry returns the time to live, in seconds, of a value that must last at least a duration.
func expiry(d time.Duration) int64 { return int64((d+time.Second-1)/time.Second) + roundings }
