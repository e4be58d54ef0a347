package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

// waitingTicket is the ticket of a claim that waits: the server stores nothing of it. Real tickets are larger.
const waitingTicket = 1

// A valueLock keeps each lock as one value under its very name, by scripts. The layouts without a queue share it: each has
// its own form of the value, and further parts.
type valueLock struct {
	conn    *conn.Conn
	prefix  string
	layout  string // for messages
	notes   []string
	scripts *valueScripts
	safely  time.Duration // between reads of a key whose changes the server reports

	mu      sync.Mutex
	endless map[string]time.Time // by claim id: since when a claim waits for a key that never expires
}

// init makes it a lock over a connection, which it owns from now on. More are the layout's own scripts.
func (s *valueLock) init(
	ctx context.Context, c *conn.Conn, prefix, layout string, scripts *valueScripts, more ...*conn.Script,
) {
	s.conn, s.prefix, s.layout, s.scripts, s.endless = c, prefix, layout, scripts, map[string]time.Time{}
	s.safely = lookSafely
	c.Load(ctx, append(scripts.all(), more...)...)
}

// Traits is [driver.Driver].
func (s *valueLock) Traits() driver.Traits {
	t := s.conn.Traits()
	t.Wake, t.Amends = "poll", true
	if s.conn.ReportsChanges() {
		t.Wake = "push"
	}
	for _, n := range s.notes {
		t.Note("%s", n)
	}
	t.Note("Layout %s: exclusive locks only, in no order, and tokens that are worth nothing to a resource.", s.layout)
	return t
}

// Close is [driver.Driver].
func (s *valueLock) Close() error {
	s.conn.Close()
	return nil
}

// Enter is one round trip. The server stores nothing of a claim that does not hold: entering again is another attempt.
func (s *valueLock) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if c.Ticket == waitingTicket {
		return s.enter(ctx, c, s.scripts.stay)
	}
	return s.enter(ctx, c, s.scripts.enter)
}

// allows refuses requests that the layout cannot serve.
func (s *valueLock) allows(c *driver.Claim) error {
	if c.Weight != driver.All || c.Capacity != driver.All {
		return fmt.Errorf("%w: layout %s has neither readers nor permits", driver.ErrUnsupported, s.layout)
	}
	if strings.ContainsAny(c.ID+c.Client, "\n") {
		return driver.Refused(errors.New("an id must not have line breaks"))
	}
	return nil
}

// enter runs a script that enters a claim, with further arguments.
func (s *valueLock) enter(ctx context.Context, c *driver.Claim, script *conn.Script, more ...string) (driver.Place, error) {
	if err := s.allows(c); err != nil {
		return driver.Place{}, err
	}
	reclaim := ""
	if c.Reclaim {
		reclaim = "r"
	}
	ttl, delay := millis(c.TTL), millis(c.Delay)
	begin, end := valueOf(c)
	a, err := s.conn.Run(ctx, script, s.key(c.Name), c.ID, append([]string{
		number(c.Ticket), number(ttl + delay), begin, end, number(ttl), number(delay),
		c.Client, driver.EncodeName(c.Owner), reclaim,
	}, more...)...)
	if err != nil {
		return driver.Place{}, err
	}
	if ticket, ok := quick(a); ok {
		s.over(c)
		return driver.Place{Ticket: ticket, Holds: true, TTL: time.Duration(ttl) * time.Millisecond}, nil
	}
	if a.Number(1) == 1 {
		s.over(c)
		return driver.Place{Ticket: a.Number(0), Holds: true, TTL: a.Span(2)}, nil
	}
	p := driver.Place{Ticket: waitingTicket, TTL: c.Wait, Ahead: 1}
	if c.Try {
		p.Ticket, p.TTL = 0, 0
	}
	if blockers := a.Standings(4); len(blockers) > 0 {
		p.Blocker = blockers[0]
	}
	left := time.Duration(a.Number(2)) * time.Millisecond
	if !c.Try && s.endures(c, left) > max(c.TTL, c.Wait) {
		s.over(c) // the claim has its answer, and does not enter again
		return driver.Place{}, fmt.Errorf("%w: key %q never expires, so whoever set it must delete it",
			driver.ErrForeign, s.key(c.Name))
	}
	p.Retry = max(0, left)
	return p, nil
}

// Renew sends all renewals in few pipelines.
func (s *valueLock) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	requests := make([]conn.Request, len(cs))
	for i, c := range cs {
		requests[i] = conn.Request{Key: s.key(c.Name), ID: c.ID, Args: []string{number(millis(c.TTL))}}
		if a := c.Amend; a != nil && a.Record != "" && s.possible(c) == nil {
			requests[i].Args = append(requests[i].Args, c.Record, a.Record)
		}
	}
	renewals := make([]driver.Renewal, len(cs))
	s.conn.RunAll(ctx, s.scripts.renew, requests, func(i int, a conn.Answer, err error) {
		switch {
		case errors.Is(err, driver.ErrForeign):
			err = fmt.Errorf("%w: %w", driver.ErrGone, err) // foreign data is in place of the claim
		case err == nil && cs[i].Amend != nil:
			if err = s.possible(cs[i]); err == nil {
				err = unamended(cs[i], a)
			}
		}
		renewals[i] = driver.Renewal{TTL: a.Span(0), Err: err}
	})
	return renewals
}

// possible returns why a claim cannot be amended, or nil.
func (s *valueLock) possible(c *driver.Claim) error {
	if c.Amend.Weight != 0 && c.Amend.Weight < c.Weight {
		return fmt.Errorf("%w: layout %s has no readers", driver.ErrUnsupported, s.layout)
	}
	return possible(c)
}

// Leave is one round trip.
func (s *valueLock) Leave(ctx context.Context, l *driver.Release) error {
	s.over(l.Claim)
	c := l.Claim
	head := "" // unless it is empty, a lock whose value begins so may be deleted without a closer look
	if begin, end := valueOf(c); c.Delay == 0 {
		head = begin + number(c.Ticket) + strings.TrimSuffix(end, c.Record)
	}
	a, err := s.conn.Run(ctx, s.scripts.leave, s.key(c.Name), c.ID, number(millis(l.Keep)), head)
	if _, entered := quick(a); entered { // an answer to an Enter of the same claim
		return s.conn.Mixed()
	}
	return err
}

// Break is [driver.Breaker]. It also removes a lock that another library holds.
func (s *valueLock) Break(ctx context.Context, b *driver.BreakRequest) (driver.ClaimInfo, error) {
	return remove(ctx, s.conn, s.scripts.remove, s.key(b.Name), b)
}

// quick returns the ticket of a claim that holds by a script's quick part, whose answer has only the ticket.
func quick(a conn.Answer) (ticket int64, ok bool) {
	if len(a) != 1 {
		return 0, false
	}
	_, after, ok := strings.Cut(a.Text(0), "\n")
	if !ok {
		return 0, false
	}
	whole, part, split := strings.Cut(after, ".") // seconds and microseconds, as TIME returns them
	ticket, err := strconv.ParseInt(whole, 10, 64)
	if split && err == nil {
		var micros int64
		micros, err = strconv.ParseInt(part, 10, 64)
		ticket = ticket*1e6 + micros
	}
	return ticket, err == nil && ticket > waitingTicket
}

// valueOf returns the parts of a held key's value before its ticket and after.
func valueOf(c *driver.Claim) (begin, end string) {
	begin = "stile1\n" + c.ID + "\n"
	end = "\n" + c.Client + "\n" + driver.EncodeName(c.Owner) + "\n" + number(millis(c.Delay)) + "\n" + c.Record
	return begin, end
}

func (s *valueLock) key(name string) string { return s.prefix + name }

// millis rounds up: the server keeps whole milliseconds, and a lease must not end early.
func millis(t time.Duration) int64 { return (t + time.Millisecond - 1).Milliseconds() }
