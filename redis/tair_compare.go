package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// A compared is a [SetNX] on a server with the commands CAS and CAD, by which it renews and releases: they cost the
// server less than a script. Entering stays a script, since it must look, stamp a ticket and set at once.
//
// A command can neither tell how much of a lease is left nor whether only a lock-delay is. So a script does what could
// make a lease shorter, what has a lock-delay, and what another client entered.
type compared struct {
	*SetNX

	mu   sync.Mutex // guards what follows
	held map[string]*possession
	most int // how many there may be until those that are over are cleared away
}

// A possession is a claim that holds, as this client knows it.
type possession struct {
	value string        // of the key
	ttl   time.Duration // longest lease that was asked for
	until time.Time     // when it is surely over, if nothing else is heard
}

const fewPossessions = 64

func newCompared(s *SetNX) *compared {
	return &compared{SetNX: s, held: map[string]*possession{}, most: fewPossessions}
}

// Enter is one round trip, of a script.
func (s *compared) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	p, err := s.SetNX.Enter(ctx, c)
	if err == nil && p.Holds && c.Delay == 0 {
		s.keep(c, p.Ticket)
	}
	return p, err
}

// keep notes what the script has set.
func (s *compared) keep(c *driver.Claim, ticket int64) {
	begin, end := valueOf(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) >= s.most {
		now := time.Now()
		for id, p := range s.held {
			if now.After(p.until) {
				delete(s.held, id)
			}
		}
		s.most = max(fewPossessions, 2*len(s.held))
	}
	p := s.held[c.ID]
	if p == nil {
		p = &possession{}
		s.held[c.ID] = p
	}
	p.value, p.ttl = begin+number(ticket)+end, max(p.ttl, c.TTL)
	p.until = time.Now().Add(2 * p.ttl)
}

// possession returns what is known of a claim, or nil.
func (s *compared) possession(c *driver.Claim) *possession {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.held[c.ID]
	if p == nil {
		return nil
	}
	known := *p
	return &known
}

func (s *compared) renewed(c *driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.held[c.ID]; p != nil {
		p.ttl = max(p.ttl, c.TTL)
		p.until = time.Now().Add(2 * p.ttl)
	}
}

func (s *compared) forget(c *driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, c.ID)
}

// Renew sends all renewals in few pipelines.
func (s *compared) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	var (
		renewals = make([]driver.Renewal, len(cs))
		others   []*driver.Claim
		at       []int // where their answers belong
		commands []command
		asked    []int
	)
	for i, c := range cs {
		p := s.possession(c)
		if p == nil || c.TTL < p.ttl {
			others, at = append(others, c), append(at, i)
			continue
		}
		commands = append(commands, command{s.key(c.Name), "CAS", []string{p.value, p.value, "PX", number(millis(c.TTL))}})
		asked = append(asked, i)
	}
	for j, a := range s.SetNX.Renew(ctx, others) {
		renewals[at[j]] = a
	}
	s.d.compareAll(ctx, commands, func(j int, err error) {
		c := cs[asked[j]]
		if err == nil {
			s.renewed(c)
			renewals[asked[j]].TTL = time.Duration(millis(c.TTL)) * time.Millisecond
		}
		if errors.Is(err, driver.ErrForeign) {
			err = fmt.Errorf("%w: %w", driver.ErrGone, err)
		}
		renewals[asked[j]].Err = err
	})
	return renewals
}

// Leave is one round trip.
func (s *compared) Leave(ctx context.Context, l *driver.Departure) error {
	c := l.Claim
	p := s.possession(c)
	if p == nil {
		return s.SetNX.Leave(ctx, l)
	}
	s.over(c)
	q := command{s.key(c.Name), "CAD", []string{p.value}}
	if l.Keep > 0 {
		kept := "stile1-left" + strings.TrimPrefix(p.value, "stile1")
		q = command{q.key, "CAS", []string{p.value, kept, "PX", number(millis(l.Keep))}}
	}
	var err error
	s.d.compareAll(ctx, []command{q}, func(_ int, e error) { err = e })
	if err == nil || driver.OutcomeOf(err) == driver.OutcomeRefused && !driver.IsUnreachable(err) {
		s.forget(c)
	}
	return err
}

// A command compares the value of a key, and answers 1, or 0 if it is another one, or -1 if there is none.
type command struct {
	key, verb string
	args      []string
}

// compareAll sends commands, and hands each outcome over with the index of its command.
func (d *Driver) compareAll(ctx context.Context, all []command, each func(i int, err error)) {
	for begin := 0; begin < len(all); begin += atOnce {
		part := all[begin:min(begin+atOnce, len(all))]
		d.compare(ctx, part, func(i int, err error) { each(begin+i, err) })
	}
}

func (d *Driver) compare(ctx context.Context, part []command, each func(i int, err error)) {
	if err := d.connected(ctx, part[0].key); err != nil {
		for i := range part {
			each(i, d.explain(ctx, err))
		}
		return
	}
	bounded, release := d.bound(ctx)
	defer release()
	cmds := make([]rueidis.Completed, len(part))
	for i, q := range part {
		cmds[i] = d.client.B().Arbitrary(q.verb).Keys(q.key).Args(q.args...).Build()
	}
	for i, r := range d.client.DoMulti(bounded, cmds...) {
		each(i, d.compares(ctx, r, part[i]))
	}
}

func (d *Driver) compares(ctx context.Context, r rueidis.RedisResult, q command) error {
	if r.NonRedisError() != nil {
		d.down.Store(true)
	}
	if wrongType(r) {
		return fmt.Errorf("%w: key %q is not a string", driver.ErrForeign, q.key)
	}
	n, err := r.AsInt64()
	switch {
	case err != nil:
		return d.explain(ctx, err)
	case n == 1:
		return nil
	}
	return driver.ErrGone
}
