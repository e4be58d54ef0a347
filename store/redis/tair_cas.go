package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/known"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

// A tairCAS is a [SetNX] on a server with the commands CAS and CAD. It renews and releases by them, since they cost the
// server less than a script. It enters as the SetNX does.
//
// A command can return neither the remaining lease nor whether only a lock-delay remains. So a script renews leases that a
// command could make shorter, and renews and releases claims with a lock-delay, claims that another client entered, and
// amended claims.
type tairCAS struct {
	*SetNX

	mu    sync.Mutex // guards the fields below
	held  map[string]*heldClaim
	limit known.Limit
}

// A heldClaim is this client's knowledge of a claim that holds.
type heldClaim struct {
	value string        // of the key
	ttl   time.Duration // longest lease requested so far
	until time.Duration // when it is surely over without a renewal; by boottime
}

func newTairCAS(s *SetNX) *tairCAS {
	return &tairCAS{SetNX: s, held: map[string]*heldClaim{}}
}

// Enter implements [SetNX].
func (s *tairCAS) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	p, err := s.SetNX.Enter(ctx, c)
	if err == nil && p.Holds && c.Delay == 0 && c.Ticket <= waitingTicket { // one that held before may have been amended
		s.noteValue(c, p.Ticket)
	}
	return p, err
}

// noteValue notes the value of a claim's key.
func (s *tairCAS) noteValue(c *driver.Claim, ticket int64) {
	begin, end := valueOf(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit.Reached(len(s.held)) {
		maps.DeleteFunc(s.held, func(_ string, p *heldClaim) bool { return known.Over(p.until) })
		s.limit.Swept(len(s.held))
	}
	p := s.held[c.ID]
	if p == nil {
		p = &heldClaim{}
		s.held[c.ID] = p
	}
	p.value, p.ttl = begin+number(ticket)+end, max(p.ttl, c.TTL)
	p.until = known.Until(p.ttl)
}

// known returns the entry of a claim, or nil.
func (s *tairCAS) known(c *driver.Claim) *heldClaim {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.held[c.ID]
	if p == nil {
		return nil
	}
	copied := *p
	return &copied
}

func (s *tairCAS) renewed(c *driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.held[c.ID]; p != nil {
		p.ttl = max(p.ttl, c.TTL)
		p.until = known.Until(p.ttl)
	}
}

func (s *tairCAS) forget(c *driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, c.ID)
}

// Renew sends all renewals in few pipelines.
func (s *tairCAS) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	var (
		renewals = make([]driver.Renewal, len(cs))
		others   []*driver.Claim
		at       []int // the indexes of their answers
		commands []conn.Comparison
		asked    []int
		once     = map[string]bool{} // the claims that are among those commands; a second command could shorten the first's lease
	)
	for i, c := range cs {
		if c.Amend != nil {
			s.forget(c) // its value changes, or may change
		}
		p := s.known(c)
		if p == nil || c.TTL < p.ttl || once[c.ID] {
			others, at = append(others, c), append(at, i)
			continue
		}
		commands = append(commands, conn.Comparison{
			Key: s.key(c.Name), Verb: "CAS", Args: []string{p.value, p.value, "PX", number(millis(c.TTL))},
		})
		asked, once[c.ID] = append(asked, i), true
	}
	s.conn.Compare(ctx, commands, func(j int, err error) {
		c := cs[asked[j]]
		switch {
		case err == nil:
			s.renewed(c)
			renewals[asked[j]].TTL = time.Duration(millis(c.TTL)) * time.Millisecond
		case errors.Is(err, driver.ErrGone):
			s.forget(c) // somebody may have amended it, so that its key has another value
			others, at = append(others, c), append(at, asked[j])
			return
		case errors.Is(err, driver.ErrForeign):
			err = fmt.Errorf("%w: %w", driver.ErrGone, err)
		}
		renewals[asked[j]].Err = err
	})
	for j, a := range s.SetNX.Renew(ctx, others) {
		renewals[at[j]] = a
	}
	return renewals
}

// Leave is one round trip.
func (s *tairCAS) Leave(ctx context.Context, l *driver.Release) error {
	c := l.Claim
	p := s.known(c)
	if p == nil {
		return s.SetNX.Leave(ctx, l)
	}
	s.over(c)
	q := conn.Comparison{Key: s.key(c.Name), Verb: "CAD", Args: []string{p.value}}
	if l.Keep > 0 {
		kept := "stile1-left" + strings.TrimPrefix(p.value, "stile1")
		q.Verb, q.Args = "CAS", []string{p.value, kept, "PX", number(millis(l.Keep))}
	}
	var err error
	s.conn.Compare(ctx, []conn.Comparison{q}, func(_ int, e error) { err = e })
	if errors.Is(err, driver.ErrGone) {
		s.forget(c)
		return s.SetNX.Leave(ctx, l) // it may have been amended, so that its key has another value
	}
	// After a lost answer the claim stays known: the next Leave must compare the same value again.
	if err == nil || driver.OutcomeOf(err) == driver.OutcomeRefused && !driver.IsUnreachable(err) {
		s.forget(c)
	}
	return err
}
