package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/record"
)

// soleName is the lock of the one server over a store whose claims live in a client's session.
const soleName = "stile-serve"

// soleWait is the lease of a claim to that lock while it waits, so that a server that no longer stands by is soon gone. The
// lock itself has the longest lease: it must end with the session, like the claims of all clients, and never before.
const soleWait = 10 * time.Second

// A sole is a server's right to be the only one over a store with sessions. The claims of all its clients live in its own
// session, so another server cannot renew them. Its lock lives there too. Thus another server begins when these claims are
// gone.
//
//	       ┌──────────┐ it holds           ┌────────┐
//	New ──►│ standing ├───────────────────►│ serving│
//	       │    by    │◄───────────────────┤        │
//	       └──────────┘ the lock is gone   └────────┘
//
// It does not release the lock when it ends: its clients' claims may live on in the session, which ends later.
type sole struct {
	s     *Server
	claim *driver.Claim
	tried chan struct{} // closed by try
	try   func()        // notes that the first request to the store is over
	kick  chan struct{} // has an element if the lock may be in danger
	tell  func(error)   // see [Options.Standby]; nil: nobody
	told  string        // what it was told last

	mu      sync.Mutex // guards the fields below
	until   time.Time  // end of trust in the lease while it serves; otherwise zero
	because error      // why it stands by
}

// newSole begins to ask for the right.
func newSole(s *Server, tell func(error)) (*sole, error) {
	so := &sole{s: s, tell: tell, tried: make(chan struct{}), kick: make(chan struct{}, 1)}
	so.try = sync.OnceFunc(func() { close(so.tried) })
	t := s.d.Traits()
	text, err := record.Write("", "", "", t.MaxTTL)
	if err != nil {
		return nil, err
	}
	so.claim = &driver.Claim{
		Name: soleName, Client: soleName + "/" + rand.Text(), Weight: driver.All, Capacity: driver.All, TTL: t.MaxTTL,
		Wait: min(max(soleWait, t.MinTTL), t.MaxTTL), Record: text,
	}
	so.because = errors.New("it has not asked its store yet")
	s.life.Go(so.keep)
	return so, nil
}

// keep asks for the lock and renews it, until the server ends.
func (so *sole) keep() {
	for ctx := so.s.ending; ctx.Err() == nil; {
		so.claim.ID, so.claim.Ticket = rand.Text(), 0
		for ctx.Err() == nil && so.ask(ctx) {
		}
	}
}

// ask finds the claim and waits until it must be found again. It returns false if the claim is gone.
func (so *sole) ask(ctx context.Context) (there bool) {
	bounded, cancel := context.WithTimeout(ctx, so.claim.Wait/2)
	defer cancel()
	sent := time.Now()
	p, err := so.s.d.Enter(bounded, so.claim)
	again := so.note(sent, &p, err)
	so.try()
	so.say()
	if errors.Is(err, driver.ErrGone) {
		return false
	}
	if err == nil {
		so.claim.Ticket = p.Ticket
	}
	so.wait(ctx, max(again, leastHear), err == nil && !p.Holds)
	return true
}

// note takes the answer to a request that was sent at a time, and returns when to ask again.
func (so *sole) note(sent time.Time, p *driver.Place, err error) time.Duration {
	so.mu.Lock()
	defer so.mu.Unlock()
	again := so.claim.Wait / 3
	switch {
	case err == nil && p.Holds:
		so.until = sent.Add(p.TTL - time.Duration(2*drift*float64(p.TTL)) - so.s.d.Traits().Granularity)
		return min(again, p.TTL/3)
	case err == nil:
		so.until, so.because = time.Time{}, otherServes(p.Blocker.Record)
		if p.Retry > 0 {
			again = min(again, p.Retry)
		}
		return again
	case errors.Is(err, driver.ErrGone):
		so.until, so.because = time.Time{}, errors.New("its session in the store has ended")
		return 0
	}
	so.because = fmt.Errorf("it cannot ask its store: %w", err)
	return min(again, time.Second)
}

// serves returns the reason why the server stands by, or nil if it serves.
func (so *sole) serves() error {
	so.mu.Lock()
	defer so.mu.Unlock()
	if time.Now().Before(so.until) {
		return nil
	}
	return so.because
}

// say tells whether the server serves, if that has changed.
func (so *sole) say() {
	because, text := so.serves(), "it serves"
	if because != nil {
		text = because.Error()
	}
	if so.tell != nil && text != so.told {
		so.told = text
		so.tell(because)
	}
}

// wait waits for a time, or until the lock is in danger or, if the claim waits, may hold.
func (so *sole) wait(ctx context.Context, most time.Duration, waits bool) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if waits {
		begun := time.Now()
		if p, err := so.s.d.Await(ctx, so.claim); err == nil && (p.Holds || time.Since(begun) >= leastHear) {
			return
		}
	}
	select {
	case <-so.kick:
	case <-ctx.Done():
	}
}

// otherServes is the reason of a server that stands by for another one.
func otherServes(text string) error {
	h := record.Read(text)
	if h.Program == "" {
		return errors.New("another server serves it")
	}
	return fmt.Errorf("%s serves it, as process %d on %s", h.Program, h.PID, h.Host)
}

// why returns the error of a request that a server must not answer, or nil. The first requests wait for the store's first
// answer.
func (so *sole) why(ctx context.Context) error {
	select {
	case <-so.tried:
	case <-ctx.Done():
		return driver.Ended(ctx, false)
	}
	because := so.serves()
	if because == nil {
		return nil
	}
	return driver.Unsent(driver.Unreachable(fmt.Errorf("this lock service stands by, since only one can serve %s: %w",
		so.s.d.Traits().Store, because)))
}

// alone passes on requests while this server is the only one over its store. Otherwise it refuses all that need the store.
func (s *Server) alone(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.sole == nil || r.URL.Path == api.Traits || r.URL.Path == api.Identity || r.URL.Path == openAPIPath ||
			r.URL.Path == metricsPath {
			next.ServeHTTP(w, r)
			return
		}
		if err := s.sole.why(r.Context()); err != nil {
			turnAway(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// put enters a claim. A new one may have entered in a later session than the one in which the request arrived; then another
// server may serve.
func (s *Server) put(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	p, err := s.d.Enter(ctx, c)
	if err != nil || c.Ticket != 0 || s.sole == nil {
		return p, err
	}
	if err := s.sole.why(ctx); err != nil {
		return driver.Place{}, driver.Unknown(err)
	}
	return p, nil
}

// mustSpare returns an error for the name of the service's own lock: whoever had that lock, or broke it, would let a second
// server begin.
func (c *caller) mustSpare(name string) error {
	if c.s == nil || c.s.sole == nil || name != soleName {
		return nil
	}
	err := &refusal{api.CodeForbidden, fmt.Errorf("the lock %s belongs to the lock service: no client can take or break it", soleName)}
	c.refused(name, err)
	return err
}
