package server

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/record"
)

// unconfirmed is the longest lease of a claim before its client's first renewal, for waiters and holders alike, since no
// lease is ever shortened. So the claim of a vanished or frozen client, of a late request, or of a lost answer ends soon.
const unconfirmed = 10 * time.Second

// grace is the time that a waiting claim stays in the queue after its PUT, for the client's next PUT.
const grace = 3 * time.Second

// leastHear is the shortest wait between two requests to the store, even if the store reports less of a lease.
const leastHear = 100 * time.Millisecond

// mostEarly is the number of early returns of Await in a row before hear pauses.
const mostEarly = 3

// drift bounds the relative difference between the rates of two clocks.
const drift = 0.005

// simpleClient is the client of all claims of the simple API, at all replicas. A store notifies the client by which a claim
// entered, and the request that waits now may have come to another replica.
const simpleClient = "stile-http"

// A grant answers PUT and POST: the client holds the lock.
type grant struct {
	Handle string `json:"handle"`
	Token  string `json:"token,omitempty"` // a number; left out if the store has no fencing
	Valid  int64  `json:"valid_ms"`        // counts from the moment before the client sent the request
}

// A released answers DELETE.
type released struct {
	Released bool `json:"released"`
}

// valid returns for how many milliseconds a client may trust a lease. The store confirmed the lease to a request that the
// server sent at sent. The client counts from the moment before its own request, which arrived later. So one rule is enough
// for the client, and the number includes the server's wait.
func (s *Server) valid(arrived, sent time.Time, lease time.Duration) int64 {
	d := sent.Sub(arrived) + lease
	d -= time.Duration(2*drift*float64(d)) + s.d.Traits().Granularity
	return max(0, d.Milliseconds())
}

func (s *Server) grant(q *lockRequest, h *handle, sent time.Time, p *driver.Place) *grant {
	return &grant{h.String(), s.token(p.Ticket), s.valid(q.arrived, sent, p.TTL)}
}

// token returns the fencing token of a ticket, the same number as a Go client's. It is a string, since many readers of JSON
// would round the number.
func (s *Server) token(ticket int64) string {
	if s.d.Traits().Fencing == driver.NoFencing {
		return ""
	}
	return strconv.FormatInt(ticket*engine.Turns, 10)
}

// short returns the lease of an unconfirmed claim. Even a short ttl has the grace added: it makes up for the drift during
// the longest wait, without which the lease would be over for its client when it is granted.
func (s *Server) short(ttl time.Duration) time.Duration {
	t := s.promises()
	return min(ttl+grace, max(unconfirmed, t.MinTTL), t.MaxTTL)
}

// takeLock answers PUT: it takes a lock and may wait for it. The server keeps nothing of the claim after the wait and never
// removes it: the client may have asked another server meanwhile, and hold.
func (s *Server) takeLock(ctx context.Context, q *lockRequest) (*grant, *failure) {
	h, wait, err := q.wanted(s)
	if err != nil {
		return nil, failed(invalid(err))
	}
	who := callerOf(ctx)
	mayTake := func(who *caller) error { return who.mustClaim(q.name, h.weight, h.capacity) }
	if err := mayTake(who); err != nil {
		return nil, failed(err)
	}
	c, err := s.entering(who, q, &h)
	if err != nil {
		return nil, failed(err)
	}
	c.Try = wait == 0 && h.ticket == 0
	over, wait, again, err := s.limits.takes(who, q.name, &h, wait)
	if err != nil {
		return nil, notHad(&h, err)
	}
	defer over()
	waits, cancel := context.WithCancel(ctx)
	defer cancel()
	done, err := s.calls.begin(ctx, claimKey{c.Name, c.ID}, cancel)
	if err != nil {
		return nil, notHad(&h, err)
	}
	defer done()
	stop := context.AfterFunc(s.ending, cancel)
	defer stop()
	still := func() error { return who.still(mayTake) }
	var w *waiting
	early := 0
	for end := q.arrived.Add(wait); ; {
		c.Wait = waitingLease(c.TTL, end)
		sent := time.Now()
		p, err := s.find(ctx, c, &h)
		switch {
		case err != nil:
			return nil, notHad(&h, err)
		case p.Holds:
			who.took(c, p.Ticket)
			return s.grant(q, &h, sent, &p), nil
		case h.ticket == 0 || !time.Now().Before(end):
			f := s.held(who, q.name, &h, &p)
			f.after = again
			return nil, f
		case w == nil:
			w = s.herds.join(c, still, end, sent, p.TTL)
			defer s.herds.leave(w)
		default:
			s.herds.settle(w, sent, p.TTL)
		}
		if err := s.waitOn(ctx, waits, w, &p, &early); err != nil {
			return nil, notHad(&h, err)
		}
	}
}

// waitOn waits until the claim must be found again.
func (s *Server) waitOn(ctx, waits context.Context, w *waiting, p *driver.Place, early *int) error {
	if err := s.hear(waits, w, p, early); err != nil {
		return err
	}
	if err := w.still(); err != nil {
		return err
	}
	if s.ending.Err() != nil {
		return errEnding
	}
	if err := s.herds.find(ctx, w); err != nil {
		return err
	}
	if waits.Err() != nil {
		return errSuperseded // if the client is gone, nobody reads this
	}
	return nil
}

// waitingLease returns the lease of a claim that waits until a time: it ends soon after that time.
func waitingLease(ttl time.Duration, end time.Time) time.Duration {
	return min(ttl, max(time.Until(end), 0)+grace)
}

// entering returns the claim of a PUT.
func (s *Server) entering(who *caller, q *lockRequest, h *handle) (*driver.Claim, error) {
	text, err := q.holder(h.ttl)
	if err != nil {
		return nil, invalid(err)
	}
	return s.claim(who, q.name, h, s.short(h.ttl), text)
}

// claim returns the driver's claim for a caller's handle and record.
func (s *Server) claim(who *caller, name string, h *handle, ttl time.Duration, text string) (*driver.Claim, error) {
	return who.claim(&driver.Claim{
		Name: name, ID: h.claimID(), Client: simpleClient, Weight: h.weight, Capacity: h.capacity, TTL: ttl, Wait: ttl, Ticket: h.ticket, Record: text,
	})
}

// find enters a claim, or finds it and renews its lease. A claim with another ticket is not the handle's claim: a late
// request has entered it after the handle's claim was gone.
func (s *Server) find(ctx context.Context, c *driver.Claim, h *handle) (driver.Place, error) {
	p, err := s.put(ctx, c)
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

// hear waits until the claim may hold, must be found again, or the wait ends. early counts the early returns of Await in a
// row: a store may return early at any time, but must not make the server spin.
func (s *Server) hear(waits context.Context, w *waiting, p *driver.Place, early *int) error {
	waits, cut := context.WithCancel(waits)
	defer cut()
	first, err := s.herds.listens(w, cut)
	if err != nil {
		return err
	}
	within := time.Until(w.end)
	if first {
		again := p.TTL / 3
		if p.Retry > 0 {
			again = min(again, p.Retry)
		}
		within = min(within, max(again, leastHear))
	}
	ctx, cancel := context.WithTimeout(waits, within)
	defer cancel()
	begin := time.Now()
	turn, err := s.d.Await(ctx, &w.claim)
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

// renewLock answers POST: it renews the lease of a claim, and so confirms it. A claim that waits gets the answer of PUT.
func (s *Server) renewLock(ctx context.Context, q *lockRequest) (*grant, *failure) {
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
	c, err := s.claim(who, q.name, &h, s.short(h.ttl), "")
	if err != nil {
		return nil, failed(err)
	}
	done, err := s.calls.begin(ctx, claimKey{c.Name, c.ID}, nil)
	if err != nil {
		return nil, failed(err)
	}
	defer done()
	sent := time.Now()
	p, err := s.find(ctx, c, &h)
	if err == nil && p.Holds && c.TTL < h.ttl && p.TTL < h.ttl {
		// This is the handle's claim, so it gets its ttl. Another claim, which nobody may know, does not.
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

// releaseLock answers DELETE: it removes a claim, whether it holds or waits.
func (s *Server) releaseLock(ctx context.Context, q *lockRequest) (*released, *failure) {
	h, err := q.claimed()
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
	c, err := s.claim(who, q.name, &h, h.ttl, "")
	if err != nil {
		return nil, failed(err)
	}
	done, err := s.calls.begin(ctx, claimKey{c.Name, c.ID}, nil)
	if err != nil {
		return nil, failed(err)
	}
	defer done()
	if err := s.d.Leave(ctx, &driver.Release{Claim: c}); err != nil {
		return nil, failed(err)
	}
	who.did(Released, c, c.Ticket)
	return &released{true}, nil
}

// holder returns the record of the request's claim.
func (q *lockRequest) holder(ttl time.Duration) (string, error) {
	h := sender(q.Request)
	h.Owner, h.Reason = q.query.Get("owner"), q.query.Get("reason")
	if len(h.Owner) > api.MaxText {
		return "", fmt.Errorf("owner has %d bytes; the limit is %d", len(h.Owner), api.MaxText)
	}
	return record.Of(h, ttl)
}

// sender returns what is known of the program that sent a request.
func sender(r *http.Request) (h record.Holder) {
	h.Program, _, _ = strings.Cut(r.UserAgent(), "/")
	h.Program = cmp.Or(h.Program, "an HTTP client")
	if h.Host, _, _ = net.SplitHostPort(r.RemoteAddr); loopback(h.Host) {
		h.Host, _ = os.Hostname() // if this fails, the host stays empty
	}
	return h
}
