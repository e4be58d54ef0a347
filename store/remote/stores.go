package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/work"
)

const (
	othersWithin = time.Second      // how long the other hosts have for their ids, after the first one
	settleAgain  = time.Second      // the shortest time between two rounds after refused requests
	missingAgain = 10 * time.Second // the same, for hosts that have not given their id yet
	singleAsks   = 4                // how often a single host is asked: it may be a balancer of several
)

// A storeCheck sees to it that all hosts serve one store. Over two stores, a lock would have two holders.
//
// The client learns the id of the store when it opens. Each request names this id, and a service over another store refuses
// the request: no claim enters there, even if a host changes its store between two requests. Then, and at first, a round asks
// all hosts for their ids. If they give two ids, the client takes no locks until they give one.
//
// A store that was wiped has another id. The client takes the new id only if all hosts give it. A silent host may still
// serve the old store to other clients, and no other host can know that.
type storeCheck struct {
	mu      sync.Mutex    // guards the fields below
	id      string        // "" if it is not known, or if the store keeps none
	apart   error         // why the hosts do not serve one store; nil if nothing shows that
	unheard error         // why no host answered the last round; nil if one did
	refused bool          // a host has refused a request since the last round
	missing bool          // some hosts have not given an id yet
	round   chan struct{} // closed when the last round is over; nil before the first
	asking  bool          // that round goes on
	begun   time.Time     // when it began
	again   time.Duration // missingAgain, except in tests
}

// current returns the id that a request must name; "" for none.
func (s *storeCheck) current() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// suspect notes that a host has refused a request.
func (s *storeCheck) suspect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = true
}

// A said is what a host says of its store.
type said struct {
	host string
	id   string // "" if the store keeps none
	why  error  // it keeps none
}

// openStore learns the id of the store from all hosts that answer. A single host need not give one, and is asked again.
func (c *client) openStore(ctx context.Context) error {
	all, silent, err := c.askStores(ctx)
	switch {
	case len(all) > 0:
		return driver.Refused(c.judge(all, silent))
	case len(c.hosts) == 1:
		c.stores.mu.Lock()
		defer c.stores.mu.Unlock()
		c.stores.missing = true
		return nil
	case errors.Is(err, errLate):
		return driver.Unreachable(err)
	}
	return err
}

// askStores asks each host for the id of its store, and a single host by several connections at once, which a balancer may
// lead to several services. The error is that of a silent host.
func (c *client) askStores(ctx context.Context) (all []said, silent []string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(c.timeout, func() { cancel(errLate) })
	defer late.Stop()
	var mu sync.Mutex // guards the results
	note := func(host string, a *api.IdentityAnswer, e error) {
		mu.Lock()
		defer mu.Unlock()
		if e != nil && !errors.Is(e, driver.ErrUnsupported) {
			silent, err = append(silent, host), e
			return
		}
		if len(all) == 0 {
			late.Reset(min(c.timeout, othersWithin))
		}
		all = append(all, said{host, a.Identity, e})
	}
	asks := c.hosts
	if len(asks) == 1 {
		asks = slices.Repeat(asks, singleAsks)
	}
	work.Each(len(asks), len(asks), func(i int) {
		var a api.IdentityAnswer
		q := &request{method: http.MethodPost, path: api.Identity, body: []byte("{}"), alone: len(c.hosts) == 1}
		note(asks[i], &a, c.exchange(ctx, asks[i], q, func(x *exchange, res *http.Response) error { return x.decode(res, &a) }))
	})
	return all, silent, err
}

var errLate = errors.New("the lock service did not say in time which store it serves")

// judge draws the conclusions from what the hosts say, and returns why they do not serve one store.
func (c *client) judge(all []said, silent []string) error {
	slices.SortStableFunc(all, func(a, b said) int { return slices.Index(c.hosts, a.host) - slices.Index(c.hosts, b.host) })
	s, first := &c.stores, &all[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused, s.missing, s.apart, s.unheard = false, len(silent) > 0 && len(c.hosts) > 1, nil, nil
	for i := range all {
		switch {
		case all[i].id == "" && len(c.hosts) > 1:
			s.apart = c.withoutID(&all[i])
			return s.apart
		case all[i].id != first.id:
			s.apart = twoStores(first.host, all[i].host)
			return s.apart
		}
	}
	if first.id != s.id && s.id != "" && len(silent) > 0 {
		s.apart = otherStore(first.host, silent[0])
	} else {
		s.id = first.id
	}
	return s.apart
}

// twoStores is the error of two hosts whose stores have two ids.
func twoStores(a, b string) error {
	if a == b {
		return fmt.Errorf("the lock services behind %s serve two stores, so a lock could have two holders: give them all one store", bare(a))
	}
	return fmt.Errorf("the lock services at %s and %s serve two stores, so a lock could have two holders: give both one store, "+
		"or name only one of them in the URL", bare(a), bare(b))
}

// otherStore is the error of a host that gives another id than before, while a silent one may still serve the store of the
// earlier id.
func otherStore(host, silent string) error {
	if host == silent {
		return fmt.Errorf("the lock services behind %s serve another store than before, and one of them does not say which, "+
			"so a lock could have two holders: mend that one, or let nothing lead to it", bare(host))
	}
	return fmt.Errorf("the lock service at %s does not say which store it serves, and the one at %s serves another store "+
		"than before, so a lock could have two holders: mend the first, or take it out of the URL if it is gone for good",
		bare(silent), bare(host))
}

// withoutID is the error of several hosts, one of which has a store without an id.
func (c *client) withoutID(a *said) error {
	return fmt.Errorf("nothing shows that %d lock services serve one store, since the store at %s gives no id (%w): "+
		"name only one of them in the URL", len(c.hosts), bare(a.host), a.why)
}

// settle waits for a round, and returns why the hosts do not serve one store. If an earlier round found that, and no host
// answered this one, settle returns why. It begins a round unless the last one began a moment ago.
func (c *client) settle(ctx context.Context) error {
	select {
	case <-c.beginRound(settleAgain):
	case <-ctx.Done():
		return driver.Ended(ctx, false)
	}
	if c.closed() {
		return driver.ErrClosed
	}
	s := &c.stores
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.apart == nil || s.unheard == nil {
		return driver.Refused(s.apart)
	}
	return driver.NotYet(driver.Unreachable(s.unheard))
}

// beginRound begins a round unless the last one goes on, or began less than a time ago. The channel is closed when the
// round is over.
func (c *client) beginRound(pause time.Duration) <-chan struct{} {
	s := &c.stores
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking || s.round != nil && time.Since(s.begun) < pause {
		return s.round
	}
	over := make(chan struct{})
	s.round, s.begun = over, time.Now()
	s.asking = c.life.Go(func() {
		all, silent, err := c.askStores(c.life.Context())
		if len(all) > 0 {
			_ = c.judge(all, silent) // which s.apart has
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(all) == 0 {
			s.unheard = err
		}
		s.asking = false
		close(over)
	})
	if !s.asking {
		close(over)
	}
	return over
}

// agreed returns the error of a claim that must not enter, since the hosts do not serve one store, or nil.
func (c *client) agreed(ctx context.Context) error {
	s := &c.stores
	s.mu.Lock()
	doubtful, missing := s.apart != nil || s.refused, s.missing && time.Since(s.begun) >= s.again
	unknown := s.id == ""
	s.mu.Unlock()
	switch {
	case doubtful, missing && unknown:
		return c.settle(ctx)
	case missing:
		c.beginRound(s.again) // which the next claim hears of
	}
	return nil
}

// resend sends a request again that a host refused because it serves another store, if a round gives the store a new id.
// Otherwise an Enter is refused, and any other request did not reach its store.
func (c *client) resend(ctx context.Context, q *request, refused error, read func(*exchange, *http.Response) error) error {
	apart := c.settle(ctx)
	if id := c.stores.current(); id != q.store {
		q.store = id
		if err := c.inTurn(ctx, q, read); !errors.Is(err, api.ErrOtherStore) {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return driver.Ended(ctx, false)
	case apart == nil: // the store has changed again
		return driver.Unsent(driver.Unreachable(refused))
	case q.path == api.Enter:
		return apart
	}
	return driver.Unsent(driver.Unreachable(apart))
}
