package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/known"
	"github.com/stilelock/stile/internal/work"
)

// Enter is [driver.Driver.Enter].
func (c *client) Enter(ctx context.Context, claim *driver.Claim) (driver.Place, error) {
	w, err := api.NewClaim(claim)
	if err != nil {
		return driver.Place{}, err
	}
	if err := c.agreed(ctx); err != nil {
		return driver.Place{}, err
	}
	ctx, cancel := c.share(ctx)
	defer cancel()
	return c.place(ctx, api.Enter, claim, &api.EnterRequest{Claim: *w})
}

// mostEarly is the most by which a wait ends before its caller's context. A request that ends with its context costs a
// connection.
const mostEarly = 100 * time.Millisecond

// Await is [driver.Driver.Await].
func (c *client) Await(ctx context.Context, claim *driver.Claim) (driver.Place, error) {
	w, err := api.NewClaim(claim)
	if err != nil {
		return driver.Place{}, err
	}
	within := api.MaxAwait
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		within = min(within, left-min(left/8, mostEarly))
	}
	if within <= 0 {
		return driver.Place{}, driver.Ended(ctx, false)
	}
	p, err := c.place(ctx, api.Await, claim, &api.AwaitRequest{Claim: *w, Within: within, Replica: c.replicas.of(claim)})
	if busy, refused := errors.AsType[*busyError](err); refused && c.pause(ctx, busy.after) {
		return driver.Place{}, nil // no news: the caller enters again, which is never refused, and learns whether it holds
	}
	return p, err
}

// place sends a request whose answer is the place of a claim.
func (c *client) place(ctx context.Context, path string, claim *driver.Claim, q any) (driver.Place, error) {
	var a api.PlaceAnswer
	if err := c.call(ctx, path, q, &a); err != nil {
		if errors.Is(err, driver.ErrGone) {
			c.parts(claim)
		}
		c.replicas.forget(claim) // another replica may have adopted it
		return driver.Place{}, err
	}
	if a.Place.Holds {
		c.replicas.forget(claim)
		c.alerts.holds(claim, a.Place.Ticket)
	} else {
		c.replicas.note(claim, a.Replica)
	}
	return a.Place.Driver(), nil
}

// atOnce is how many requests of one renewal may be under way at the same time.
const atOnce = 4

// Renew is [driver.Driver.Renew]. If the claims are too many or too large for one request, it sends several.
func (c *client) Renew(ctx context.Context, claims []*driver.Claim) []driver.Renewal {
	var (
		renewals = make([]driver.Renewal, len(claims))
		batches  []batch
		size     int
	)
	for i, claim := range claims {
		w, err := api.NewClaim(claim)
		if err != nil {
			renewals[i].Err = err
			continue
		}
		n := mostOf(claim)
		if last := len(batches) - 1; last < 0 || size+n > api.MaxRequest || len(batches[last].claims) == api.MaxClaims {
			batches, size = append(batches, batch{}), 0
		}
		b := &batches[len(batches)-1]
		b.claims, b.index = append(b.claims, *w), append(b.index, i)
		size += n
	}
	work.Each(len(batches), atOnce, func(i int) { c.renew(ctx, &batches[i], renewals) })
	c.alerts.renewed(claims, renewals)
	return renewals
}

// A batch has the claims of one request, and their indexes among the caller's claims.
type batch struct {
	claims []api.Claim
	index  []int
}

// mostOf returns an upper bound of a claim's bytes in a request: JSON escapes a byte by at most six, and base64 takes less
// than two.
func mostOf(c *driver.Claim) int {
	const rest = 512 // names of fields, and numbers
	n := rest + 6*(len(c.Name)+len(c.ID)+len(c.Client)+len(c.Owner)) + 2*len(c.Record)
	if c.Amend != nil {
		n += 2 * len(c.Amend.Record)
	}
	return n
}

// renew renews the claims of one request.
func (c *client) renew(ctx context.Context, b *batch, renewals []driver.Renewal) {
	var a api.RenewAnswer
	err := c.call(ctx, api.Renew, &api.RenewRequest{Claims: b.claims}, &a)
	if err == nil && len(a.Renewals) != len(b.claims) {
		err = driver.Unknown(fmt.Errorf("the lock service answered %d renewals by %d", len(b.claims), len(a.Renewals)))
	}
	for i, at := range b.index {
		if err != nil {
			renewals[at].Err = err
		} else {
			renewals[at] = a.Renewals[i].Driver()
		}
	}
}

// share bounds a request to one host's share of the caller's time: a frozen host never answers. The caller repeats an Enter or
// a Leave without an answer, and the next host gets it.
func (c *client) share(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok || len(c.hosts) == 1 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Until(end)/time.Duration(len(c.hosts)))
}

// Leave is [driver.Driver.Leave]. With several hosts, one of them gets only its share of the time to answer.
func (c *client) Leave(ctx context.Context, l *driver.Release) error {
	w, err := api.NewClaim(l.Claim)
	if err != nil {
		return err
	}
	c.parts(l.Claim)
	ctx, cancel := c.share(ctx)
	defer cancel()
	return c.call(ctx, api.Leave, &api.LeaveRequest{Claim: *w, Keep: l.Keep}, &api.LeaveAnswer{})
}

// parts forgets a claim that is gone or about to leave.
func (c *client) parts(claim *driver.Claim) {
	c.replicas.forget(claim)
	c.alerts.parts(claim)
}

// replicas are, for a store that notifies only one replica, the replicas that hear of the turns of waiting claims.
type replicas struct {
	mu    sync.Mutex // guards the fields below
	byID  map[heldBy]replica
	limit known.Limit
}

type replica struct {
	name  string
	until time.Duration // see [known.Until]
}

// note notes the replica that hears of a claim; an empty name means all replicas.
func (rs *replicas) note(c *driver.Claim, name string) {
	if name == "" {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.limit.Reached(len(rs.byID)) {
		maps.DeleteFunc(rs.byID, func(_ heldBy, r replica) bool { return known.Over(r.until) })
		rs.limit.Swept(len(rs.byID))
	}
	if rs.byID == nil {
		rs.byID = map[heldBy]replica{}
	}
	rs.byID[heldBy{c.ID, c.Name}] = replica{name, known.Until(c.TTL)}
}

// of returns the name of the replica that hears of a claim, or "".
func (rs *replicas) of(c *driver.Claim) string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.byID[heldBy{c.ID, c.Name}].name
}

func (rs *replicas) forget(c *driver.Claim) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.byID, heldBy{c.ID, c.Name})
}
