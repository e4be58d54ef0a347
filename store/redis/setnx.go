package redis

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

// A SetNX keeps each lock as one string under its very name, by SET NX, as redsync, redislock, redis-py, Spring,
// node-redlock and most others do. So they and stile exclude each other. It has no queue: the first to ask after a release
// is next. It has no readers and no permits. Its tickets are worth nothing to a resource, since the others have none. Use it
// to move to stile name by name, and a [Driver] otherwise.
type SetNX struct {
	valueLock
	last     atomic.Int64 // ticket
	keyWatch *keyWatch    // nil if the server reports no changes
}

var _ interface {
	driver.Driver
	driver.Lister
	driver.Breaker
	driver.Alerter
} = (*SetNX)(nil)

// newSetNX makes a driver over a connection, which it owns from now on.
func newSetNX(ctx context.Context, c *conn.Conn, prefix string) *SetNX {
	s := &SetNX{}
	s.init(ctx, c, prefix, layoutSetNX, stringScripts(c))
	if c.ReportsChanges() {
		s.keyWatch = newKeyWatch(c)
	}
	return s
}

// Traits is [driver.Driver].
func (s *SetNX) Traits() driver.Traits {
	t := s.valueLock.Traits()
	t.HearsBreak = s.keyWatch != nil
	return t
}

// Alert is [driver.Alerter].
func (s *SetNX) Alert(endangered func(ids ...string)) {
	if s.keyWatch != nil {
		s.keyWatch.endanger.Store(&endangered)
	}
}

// Enter is one round trip, or two if the lock is taken. The server stores nothing of a claim that does not hold: entering
// again is another attempt.
func (s *SetNX) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	p, err := s.enters(ctx, c)
	if err == nil && p.Holds {
		s.keyWatch.holds(c, s.key(c.Name))
	}
	return p, err
}

func (s *SetNX) enters(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if c.Ticket == 0 && !c.Try && !c.Reclaim {
		if p, err := s.set(ctx, c); err != nil || p.Holds {
			return p, err
		}
		// The lock is taken, or was a moment ago: the script reads who has it, and takes the lock if it is free by now.
	}
	return s.valueLock.Enter(ctx, c)
}

// Renew sends all renewals in few pipelines.
func (s *SetNX) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	renewals := s.valueLock.Renew(ctx, cs)
	for i, c := range cs {
		switch err := renewals[i].Err; {
		case err == nil: // another process may have entered it
			s.keyWatch.holds(c, s.key(c.Name))
		case errors.Is(err, driver.ErrGone):
			s.keyWatch.parts(c, s.key(c.Name))
		}
	}
	return renewals
}

// Leave is one round trip.
func (s *SetNX) Leave(ctx context.Context, l *driver.Release) error {
	s.keyWatch.parts(l.Claim, s.key(l.Claim.Name))
	return s.valueLock.Leave(ctx, l)
}

// set is the usual attempt of a claim that would wait: SET NX costs the server a fraction of a script. Its answer does not
// say who has the lock, and has no time of the server, so the ticket is made from this client's clock.
func (s *SetNX) set(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if err := s.allows(c); err != nil {
		return driver.Place{}, err
	}
	ticket, ttl := s.clock(), time.Duration(millis(c.TTL))*time.Millisecond
	begin, end := valueOf(c)
	set, err := s.conn.SetNX(ctx, s.key(c.Name), begin+number(ticket)+end, millis(ttl+c.Delay))
	if err != nil || !set {
		return driver.Place{}, err
	}
	return driver.Place{Ticket: ticket, Holds: true, TTL: ttl}, nil
}

// clock returns the time in microseconds, different at each call.
func (s *SetNX) clock() int64 {
	for {
		last := s.last.Load()
		next := max(last+1, waitingTicket+1, time.Now().UnixMicro())
		if s.last.CompareAndSwap(last, next) {
			return next
		}
	}
}
