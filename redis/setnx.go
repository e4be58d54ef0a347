package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// waitingTicket is that of a claim that waits: nothing stands in the server for it. Real tickets are larger.
const waitingTicket = 1

// A SetNX keeps each lock as one string under its very name, set if there was none, as redsync, redislock, redis-py,
// Spring, node-redlock and most others do, so that they and stile exclude each other. There is no queue in it: who asks
// at the right moment is next, there are no readers and no permits, and tickets are worth nothing to a resource, since
// the others give none. Use it to move to stile name by name, and a [Driver] otherwise.
type SetNX struct {
	d       *Driver
	layout  string
	scripts *setNXScripts
	tracker *tracker
	last    atomic.Int64 // ticket

	mu      sync.Mutex
	endless map[string]time.Time // since when a claim waits for a key that never expires, by the claim's id
}

var _ interface {
	driver.Driver
	driver.Lister
	driver.Breaker
} = (*SetNX)(nil)

// NewSetNX returns a driver that uses the caller's client, as [New] does. Keys begin with the prefix, if there is one.
func NewSetNX(client rueidis.Client, o *Options) (*SetNX, error) {
	d, err := New(client, nil)
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &Options{}
	}
	return newSetNX(d, o.Prefix), nil
}

// newSetNX makes a driver over the connections of another, which it owns from now on.
func newSetNX(d *Driver, prefix string) *SetNX {
	d.prefix = prefix
	return &SetNX{
		d: d, layout: layoutSetNX, scripts: newSetNXScripts("", d.allowOOM), tracker: d.tracker, endless: map[string]time.Time{},
	}
}

// Traits is [driver.Driver].
func (s *SetNX) Traits() driver.Traits {
	t := s.d.traits
	t.Ordered, t.Shared, t.Permits, t.Fencing = false, false, false, driver.NoFencing
	if s.d.mute || s.d.client.Mode() == rueidis.ClientModeCluster {
		t.Wake = "poll"
	}
	t.Notes = append(slices.Clone(t.Notes),
		"Layout "+s.layout+": exclusive locks alone, in no order, and tokens that are worth nothing to a resource.")
	return t
}

// Close is [driver.Driver].
func (s *SetNX) Close() error { return s.d.Close() }

// Enter is one round trip, or two if somebody has the lock. A claim that does not hold has no place in the server:
// entering again is another attempt.
func (s *SetNX) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if s.layout == layoutSetNX && c.Ticket == 0 && !c.Try && !c.Reclaim {
		if p, err := s.set(ctx, c); err != nil || p.Holds {
			return p, err
		}
	}
	if c.Ticket == waitingTicket {
		return s.enter(ctx, c, s.scripts.stay)
	}
	return s.enter(ctx, c, s.scripts.enter)
}

// set is the usual attempt of one who would wait: SET NX costs the server a fraction of a script. It says nothing of who
// has the lock, and neither tells the server's time, so the ticket is of this client's.
func (s *SetNX) set(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if err := s.allows(c); err != nil {
		return driver.Place{}, err
	}
	ticket, ttl := s.clock(), time.Duration(millis(c.TTL))*time.Millisecond
	begin, end := valueOf(c)
	set, err := s.d.setNX(ctx, s.key(c.Name), begin+number(ticket)+end, ttl+c.Delay)
	if err != nil || !set {
		return driver.Place{}, err
	}
	return driver.Place{Ticket: ticket, Holds: true, TTL: ttl}, nil
}

// clock returns the time in microseconds, each another.
func (s *SetNX) clock() int64 {
	for {
		last := s.last.Load()
		next := max(last+1, waitingTicket+1, time.Now().UnixMicro())
		if s.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// allows refuses what the layout does not have.
func (s *SetNX) allows(c *driver.Claim) error {
	if c.Weight != driver.All || c.Capacity != driver.All {
		return fmt.Errorf("%w: layout %s has neither readers nor permits", driver.ErrUnsupported, s.layout)
	}
	if strings.ContainsAny(c.ID+c.Client, "\n") {
		return driver.Refused(errors.New("an id must not have line breaks"))
	}
	return nil
}

// enter runs a script that enters a claim, with further arguments.
func (s *SetNX) enter(ctx context.Context, c *driver.Claim, script *script, more ...string) (driver.Place, error) {
	if err := s.allows(c); err != nil {
		return driver.Place{}, err
	}
	reclaim := ""
	if c.Reclaim {
		reclaim = "r"
	}
	ttl, delay := millis(c.TTL), millis(c.Delay)
	begin, end := valueOf(c)
	a, err := s.d.run(ctx, script, request{s.key(c.Name), c.ID, append([]string{
		c.ID, number(c.Ticket), number(ttl + delay), begin, end, number(ttl), number(delay), c.Client, driver.EncodeName(c.Owner), reclaim,
	}, more...)})
	if err != nil {
		return driver.Place{}, err
	}
	if ticket, ok := a.quick(); ok {
		s.over(c)
		return driver.Place{Ticket: ticket, Holds: true, TTL: time.Duration(ttl) * time.Millisecond}, nil
	}
	if a.number(1) == 1 {
		s.over(c)
		return driver.Place{Ticket: a.number(0), Holds: true, TTL: a.span(2)}, nil
	}
	p := driver.Place{Ticket: waitingTicket, TTL: c.Wait, Ahead: 1}
	if c.Try {
		p.Ticket, p.TTL = 0, 0
	}
	if blockers := a.standings(4); len(blockers) > 0 {
		p.Blocker = blockers[0]
	}
	left := time.Duration(a.number(2)) * time.Millisecond
	if !c.Try && s.endures(c, left) > max(c.TTL, c.Wait) {
		s.over(c) // the claim has its answer, and does not come again
		return driver.Place{}, fmt.Errorf("%w: key %q never expires, so whoever set it must delete it", driver.ErrForeign, s.key(c.Name))
	}
	p.Retry = max(0, left)
	return p, nil
}

// Renew sends all renewals in few pipelines.
func (s *SetNX) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	requests := make([]request, len(cs))
	for i, c := range cs {
		requests[i] = request{s.key(c.Name), c.ID, []string{c.ID, number(millis(c.TTL))}}
	}
	renewals := make([]driver.Renewal, len(cs))
	s.d.runAll(ctx, s.scripts.renew, requests, func(i int, a answer, err error) {
		if errors.Is(err, driver.ErrForeign) {
			err = fmt.Errorf("%w: %w", driver.ErrGone, err) // somebody's data stands where the claim was
		}
		renewals[i] = driver.Renewal{TTL: a.span(0), Err: err}
	})
	return renewals
}

// Leave is one round trip.
func (s *SetNX) Leave(ctx context.Context, l *driver.Departure) error {
	s.over(l.Claim)
	c := l.Claim
	head := ""
	if begin, end := valueOf(c); c.Delay == 0 {
		head = begin + number(c.Ticket) + strings.TrimSuffix(end, c.Record)
	}
	a, err := s.d.run(ctx, s.scripts.leave, request{s.key(c.Name), c.ID, []string{c.ID, number(millis(l.Keep)), head}})
	if _, entered := a.quick(); entered {
		return errOther
	}
	return err
}

// Break is [driver.Breaker]. It also removes a lock that another library holds.
func (s *SetNX) Break(ctx context.Context, b *driver.Breakage) (driver.Standing, error) {
	a, err := s.d.run(ctx, s.scripts.remove, request{s.key(b.Name), "", []string{"", number(b.Ticket)}})
	if err != nil {
		return driver.Standing{}, err
	}
	list := a.standings(0)
	if len(list) != 1 {
		return driver.Standing{}, errors.New("redis answered without the claim that was removed")
	}
	return list[0], nil
}

// List is [driver.Lister]. One name is listed whoever holds it; of all names, those that stile holds, since any string
// in the database could be another library's lock.
func (s *SetNX) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	if q.Name != "" {
		a, err := s.d.run(ctx, s.scripts.look, request{s.key(q.Name), "", []string{"", ""}})
		return listed(nil, q.Name, a), err
	}
	keys, err := s.d.keys(ctx, s.d.prefix+q.Prefix, literal(s.d.prefix+q.Prefix)+"*")
	if err != nil {
		return nil, err
	}
	requests := make([]request, len(keys))
	for i, key := range keys {
		requests[i] = request{key, "", []string{"", "own"}}
	}
	var all []driver.Listing
	s.d.runAll(ctx, s.scripts.look, requests, func(i int, a answer, e error) {
		if e != nil && !errors.Is(e, driver.ErrForeign) {
			err = e
			return
		}
		all = listed(all, strings.TrimPrefix(keys[i], s.d.prefix), a)
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func listed(all []driver.Listing, name string, a answer) []driver.Listing {
	claims := a.standings(0)
	if len(claims) == 0 || driver.CheckName(name) != nil {
		return all
	}
	return append(all, driver.Listing{Name: name, Capacity: driver.All, Claims: claims})
}

// valueOf is what stands in the key of a claim that holds, before its ticket and after.
func valueOf(c *driver.Claim) (begin, end string) {
	return "stile1\n" + c.ID + "\n", "\n" + c.Client + "\n" + driver.EncodeName(c.Owner) + "\n" + number(millis(c.Delay)) + "\n" + c.Record
}

func (s *SetNX) key(name string) string { return s.d.prefix + name }

// millis rounds up: the server keeps whole milliseconds, and a lease must not end before it was said to.
func millis(t time.Duration) int64 { return (t + time.Millisecond - 1).Milliseconds() }
