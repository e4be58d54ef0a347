package redis

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

const (
	// together is how many claims one script renews. It blocks the server for a quarter of a millisecond.
	together = 32

	// The number of such scripts under way at once. It is small, so that an unlock does not queue behind all renewals of a
	// client with many leases. If the server takes long to answer, as a distant server does, the number is larger: a small
	// one would not be enough for all leases.
	//
	// While 100,000 leases are renewed, the 99th percentile of an unlock is 2.1 ms (1.6 to 6.2) on a busy machine; with four
	// scripts of 64 claims it was 9.7 (5.9 to 55) (cd store/redis && go test -run '^$' -bench UnlockBeside -benchtime 1x .).
	renewingNear = 2
	renewingFar  = 8
	far          = 4 * time.Millisecond
)

// Renew renews many claims by one script. The script skips claims that are not alone on their names; each of these is
// renewed by a script of its own, in few pipelines. Two claims on one name are not even tried together: the script reads
// whole queues. In a cluster every claim is renewed by its own script, since the names may be on any server.
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	renewals, rest := make([]driver.Renewal, len(cs)), make([]int, 0, len(cs))
	if len(cs) == 1 || d.conn.Spread() {
		for i := range cs {
			rest = append(rest, i)
		}
		d.renewEach(ctx, cs, rest, renewals)
		d.hears(cs, renewals)
		return renewals
	}
	for begin := 0; begin < len(cs); begin += together {
		end := min(begin+together, len(cs))
		rest = d.renewTogether(ctx, cs, begin, end, rest, renewals)
	}
	d.renewEach(ctx, cs, rest, renewals)
	d.hears(cs, renewals)
	return renewals
}

// hears notes which claims hold, including claims of another process, and which were broken.
func (d *Driver) hears(cs []*driver.Claim, renewals []driver.Renewal) {
	for i, c := range cs {
		key := d.key(c.Name)
		switch err := renewals[i].Err; {
		case err == nil && renewals[i].TTL > c.Wait:
			d.breaks.holds(d.clientChannel(c.Client), c.ID, key, c.TTL)
		case errors.Is(err, driver.ErrGone):
			d.breaks.parts(d.clientChannel(c.Client), c.ID, key)
			renewals[i].Err = d.breaks.explain(c, key, err)
		}
	}
}

// renewTogether renews some of the claims by one script, and appends the skipped ones to rest.
func (d *Driver) renewTogether(
	ctx context.Context, cs []*driver.Claim, begin, end int, rest []int, renewals []driver.Renewal,
) []int {
	keys, args, of := make([]string, 0, end-begin), make([]string, 0, 2*(end-begin)), make([]int, 0, end-begin)
	for i := begin; i < end; i++ {
		c := cs[i]
		if c.Amend != nil || i > begin && cs[i-1].Name == c.Name || i+1 < end && cs[i+1].Name == c.Name {
			rest = append(rest, i)
			continue
		}
		keys, args, of = append(keys, d.key(c.Name)), append(args, c.ID, number(micros(c.TTL))), append(of, i)
	}
	if len(keys) == 0 {
		return rest
	}
	var a conn.Answer
	err := d.renewals.take(ctx, func() (err error) {
		a, err = d.conn.RunTogether(ctx, d.scripts.renewMany, keys, args)
		return err
	})
	for n, i := range of {
		switch {
		case err != nil && driver.OutcomeOf(err) == driver.OutcomeRefused:
			rest = append(rest, i) // refused together; the server may accept each by itself
		case err != nil:
			renewals[i].Err = err
		case a.Span(n) > 0:
			renewals[i].TTL = a.Span(n)
		default:
			rest = append(rest, i)
		}
	}
	return rest
}

// renewEach renews some of the claims by a script each.
func (d *Driver) renewEach(ctx context.Context, cs []*driver.Claim, of []int, renewals []driver.Renewal) {
	requests := make([]conn.Request, len(of))
	for n, i := range of {
		c := cs[i]
		requests[n] = conn.Request{
			Key: d.key(c.Name), ID: c.ID, Args: []string{number(micros(c.TTL)), number(micros(c.Wait))},
		}
		if a := c.Amend; a != nil && possible(c) == nil {
			requests[n].Args = append(requests[n].Args, number(a.Weight), c.Record, a.Record)
		}
	}
	d.conn.RunAll(ctx, d.scripts.renew, requests, func(n int, a conn.Answer, err error) {
		i := of[n]
		if err == nil {
			err = unamended(cs[i], a)
		}
		renewals[i] = driver.Renewal{TTL: a.Span(0), Err: err}
	})
}

// renewals are the renewals under way.
type renewals struct {
	near, all chan struct{} // have an element for each near renewal, and for each renewal
	took      atomic.Int64  // duration of the last one, in nanoseconds
}

func newRenewals() *renewals {
	return &renewals{near: make(chan struct{}, renewingNear), all: make(chan struct{}, renewingFar)}
}

// take runs a renewal in its turn.
func (r *renewals) take(ctx context.Context, renew func() error) error {
	turns := []chan struct{}{r.all}
	if time.Duration(r.took.Load()) < far {
		turns = []chan struct{}{r.near, r.all}
	}
	for _, turn := range turns {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return driver.Ended(ctx, false)
		}
	}
	begin := time.Now()
	err := renew()
	r.took.Store(int64(time.Since(begin)))
	return err
}

// possible returns why a claim cannot be amended, or nil.
func possible(c *driver.Claim) error {
	_, _, err := c.Amended(c.Weight, c.Record, true)
	return err
}

// unamended returns why a renewed claim was not amended.
func unamended(c *driver.Claim, a conn.Answer) error {
	if err := possible(c); err != nil {
		return err
	}
	const (
		waits   = 1
		another = 2
	)
	record, holds := c.Record, true
	switch a.Number(1) {
	case waits:
		holds = false
	case another:
		record = a.Text(2)
	}
	_, _, err := c.Amended(c.Weight, record, holds)
	return err
}
