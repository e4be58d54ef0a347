package server

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/record"
)

// unconfirmed is the longest lease of a claim whose client has not renewed it yet, whether it waits or holds. So what is left
// of a client that is gone or frozen, of a request that arrives late, or of a lost answer, ends soon. It is one length for
// both, since no lease is ever made shorter.
const unconfirmed = 10 * time.Second

// grace is how much longer than its PUT a waiting claim stays in the queue, for the client's next PUT.
const grace = 3 * time.Second

// leastHear is the shortest wait between two requests to the store, however little of a lease the store says is left.
const leastHear = 100 * time.Millisecond

// mostEarly is how often in a row a store may say at once that a turn may have come, before the next request waits as long.
const mostEarly = 3

// drift bounds how much the rates of two clocks may differ.
const drift = 0.005

// simpleClient is the client of the claims of the simple API. All replicas have one, since a store tells the client by which a
// claim has entered of its turn, and the request that waits may have come to another replica since.
const simpleClient = "stile-http"

// A grant answers PUT and POST: the client holds the lock.
type grant struct {
	Handle string `json:"handle"`
	Token  string `json:"token,omitempty"` // a number; left out if the store has no fencing
	Valid  int64  `json:"valid_ms"`        // from before the request was sent
}

// A released answers DELETE.
type released struct {
	Released bool `json:"released"`
}

// valid is for how many milliseconds a client may trust a lease that the store confirmed to a request which the server sent
// at a time. It counts from before the client sent its own request, which arrived later. So a client needs one rule only, and the
// time that the server waited is in the number.
func (s *Server) valid(arrived, sent time.Time, lease time.Duration) int64 {
	d := sent.Sub(arrived) + lease
	d -= time.Duration(2*drift*float64(d)) + s.d.Traits().Granularity
	return max(0, d.Milliseconds())
}

func (s *Server) grant(q *lockRequest, h *handle, sent time.Time, p *driver.Place) *grant {
	return &grant{h.String(), s.token(p.Ticket), s.valid(q.arrived, sent, p.TTL)}
}

// token is the token of a claim's ticket: the same number that a Go client gets. As a number of JSON it would be rounded.
func (s *Server) token(ticket int64) string {
	if s.d.Traits().Fencing == driver.NoFencing {
		return ""
	}
	return strconv.FormatInt(ticket*engine.Turns, 10)
}

// short is the lease of a claim that nobody has confirmed. A short ttl has the grace too, which is also more than the drift of
// the longest wait: without it, a lease that is granted after such a wait would be over for its client.
func (s *Server) short(ttl time.Duration) time.Duration {
	t := s.d.Traits()
	return min(ttl+grace, max(unconfirmed, t.MinTTL), t.MaxTTL)
}

// takeLock takes a lock, and waits for it. Nothing of the claim stays in the server when the wait ends, and nothing here
// removes it: its client may have asked another server meanwhile, and hold.
func (s *Server) takeLock(ctx context.Context, q *lockRequest) (any, *failure) {
	h, wait, err := q.wanted(s)
	if err != nil {
		return nil, failed(invalid(err))
	}
	who := callerOf(ctx)
	mayTake := func(who *caller) error { return who.mustClaim(q.name, h.weight, h.capacity) }
	if err := mayTake(who); err != nil {
		return nil, failed(err)
	}
	c := s.claim(who, q.name, &h, s.short(h.ttl))
	c.Try = wait == 0 && h.ticket == 0
	if c.Record, err = q.holder(h.ttl); err != nil {
		return nil, failed(invalid(err))
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	done, err := s.calls.begin(ctx, claimKey{c.Name, c.ID}, cancel)
	if err != nil {
		return nil, notHad(&h, err)
	}
	defer done()
	stop := context.AfterFunc(s.ending, cancel)
	defer stop()
	early := 0
	for end := q.arrived.Add(wait); ; {
		c.Wait = min(c.TTL, max(time.Until(end), 0)+grace)
		sent := time.Now()
		p, err := s.find(ctx, c, &h)
		switch {
		case err != nil:
			return nil, notHad(&h, err)
		case p.Holds:
			return s.grant(q, &h, sent, &p), nil
		case h.ticket == 0 || !time.Now().Before(end):
			return nil, s.held(who, q.name, &h, &p)
		}
		err = s.hear(waiting, c, &p, end, &early)
		if err == nil {
			err = who.still(mayTake)
		}
		if err != nil {
			return nil, notHad(&h, err)
		}
		switch {
		case waiting.Err() == nil:
		case s.ending.Err() != nil:
			return nil, notHad(&h, errEnding)
		default: // nobody hears it, if the client is gone
			return nil, notHad(&h, errSuperseded)
		}
	}
}

// claim is what a driver gets of a caller's handle.
func (s *Server) claim(who *caller, name string, h *handle, ttl time.Duration) *driver.Claim {
	return who.claim(&driver.Claim{
		Name: name, ID: h.id, Client: simpleClient, Weight: h.weight, Capacity: h.capacity, TTL: ttl, Wait: ttl, Ticket: h.ticket,
	})
}

// find enters a claim, or finds it and starts its lease anew. A claim with another ticket is not the one of the handle: a
// request that arrived late has entered it, after that one was gone.
func (s *Server) find(ctx context.Context, c *driver.Claim, h *handle) (driver.Place, error) {
	p, err := s.d.Enter(ctx, c)
	if err == nil && c.Ticket != 0 && p.Ticket != c.Ticket {
		err = driver.ErrGone
	}
	if err != nil {
		return driver.Place{}, err
	}
	if p.Ticket != 0 {
		h.ticket, c.Ticket, c.Try = p.Ticket, p.Ticket, false
	}
	return p, nil
}

// hear returns when the claim may hold, when its lease wants to be renewed, or when the wait ends. It counts how often in a row the
// store has returned early, which it may always do.
func (s *Server) hear(waiting context.Context, c *driver.Claim, p *driver.Place, end time.Time, early *int) error {
	within := p.TTL / 3
	if p.Retry > 0 {
		within = min(within, p.Retry)
	}
	within = min(max(within, leastHear), time.Until(end))
	ctx, cancel := context.WithTimeout(waiting, within)
	defer cancel()
	begin := time.Now()
	turn, err := s.d.Await(ctx, c)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	case turn.Holds || time.Since(begin) >= leastHear:
		*early = 0
		return nil
	}
	if *early++; *early > mostEarly {
		pause, stop := context.WithTimeout(ctx, leastHear)
		defer stop()
		<-pause.Done()
	}
	return nil
}

// renewLock renews the lease of a claim, and so confirms it. It answers a claim that waits as PUT does.
func (s *Server) renewLock(ctx context.Context, q *lockRequest) (any, *failure) {
	h, err := q.handle()
	if err == nil && h.ticket == 0 {
		err = errNoHandle
	}
	if err == nil {
		h.ttl, err = q.ttl(s, h.ttl)
	}
	if err != nil {
		return nil, failed(invalid(err))
	}
	who := callerOf(ctx)
	if err := who.mustClaim(q.name, h.weight, h.capacity); err != nil {
		return nil, failed(err)
	}
	c := s.claim(who, q.name, &h, s.short(h.ttl))
	done, err := s.calls.begin(ctx, claimKey{c.Name, c.ID}, nil)
	if err != nil {
		return nil, failed(err)
	}
	defer done()
	sent := time.Now()
	p, err := s.find(ctx, c, &h)
	if err == nil && p.Holds && c.TTL < h.ttl && p.TTL < h.ttl {
		// It is the claim of the handle. Another one, which nobody may know, does not get the ttl.
		c.TTL, sent = h.ttl, time.Now()
		p, err = s.find(ctx, c, &h)
	}
	switch {
	case err != nil:
		return nil, failed(err)
	case !p.Holds:
		return nil, s.held(who, q.name, &h, &p)
	}
	return s.grant(q, &h, sent, &p), nil
}

// releaseLock removes a claim, whether it holds or waits.
func (s *Server) releaseLock(ctx context.Context, q *lockRequest) (any, *failure) {
	h, err := q.handle()
	if err == nil && h.id == "" {
		err = errNoHandle
	}
	if err != nil {
		return nil, failed(invalid(err))
	}
	who := callerOf(ctx)
	if err := who.mustHave(q.name); err != nil {
		return nil, failed(err)
	}
	c := s.claim(who, q.name, &h, h.ttl)
	done, err := s.calls.begin(ctx, claimKey{c.Name, c.ID}, nil)
	if err != nil {
		return nil, failed(err)
	}
	defer done()
	if err := s.d.Leave(ctx, &driver.Release{Claim: c}); err != nil {
		return nil, failed(err)
	}
	return &released{true}, nil
}

// holder is the record of the request's claim.
func (q *lockRequest) holder(ttl time.Duration) (string, error) {
	h := record.Holder{Owner: q.query.Get("owner"), Reason: q.query.Get("reason")}
	if len(h.Owner) > api.MaxText {
		return "", fmt.Errorf("owner has at most %d bytes", api.MaxText)
	}
	h.Program, _, _ = strings.Cut(q.UserAgent(), "/")
	h.Program = cmp.Or(h.Program, "an HTTP client")
	if h.Host, _, _ = net.SplitHostPort(q.RemoteAddr); loopback(h.Host) {
		h.Host, _ = os.Hostname() // without it the host is not known
	}
	return record.Of(h, ttl)
}
