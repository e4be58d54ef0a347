package shard

import (
	"context"
	"sync"

	"github.com/stilelock/stile/driver"
)

// Enter is [driver.Driver].
func (s *shards) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if err := s.members.check(ctx, s.life.Go); err != nil {
		return driver.Place{}, err
	}
	from, to := s.homes(c.Name)
	if from != nil {
		return s.enterBoth(ctx, from, to, c)
	}
	p, err := to.Enter(ctx, c)
	return p, to.says(err)
}

// Await is [driver.Driver].
func (s *shards) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	from, to := s.homes(c.Name)
	if from != nil {
		return s.awaitBoth(ctx, from, to, c)
	}
	p, err := to.Await(ctx, c)
	return p, to.says(err)
}

// A batch is the claims of one store that go in one renewal.
type batch struct {
	claims  []*driver.Claim
	answers []driver.Renewal
}

// Renew is [driver.Driver]. All stores are asked at the same time.
func (s *shards) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	// The place of the answers to a claim: in one batch, or in two.
	type where struct {
		store *store
		index int
	}
	var (
		batches  = map[*store]*batch{}
		places   = make([][]where, len(cs))
		renewals = make([]driver.Renewal, len(cs))
	)
	ask := func(i int, st *store, c *driver.Claim) {
		b := batches[st]
		if b == nil {
			b = &batch{}
			batches[st] = b
		}
		places[i] = append(places[i], where{st, len(b.claims)})
		b.claims = append(b.claims, c)
	}
	for i, c := range cs {
		from, to := s.homes(c.Name)
		if from == nil {
			ask(i, to, c)
			continue
		}
		x := s.dualHolds.find(c)
		ask(i, from, c)
		if x == nil || x.entered {
			ask(i, to, x.there(c))
		}
	}
	var asked sync.WaitGroup
	for st, b := range batches {
		asked.Go(func() { b.answers = st.Renew(ctx, b.claims) })
	}
	asked.Wait()
	for i, at := range places {
		first := batches[at[0].store].answers[at[0].index]
		first.Err = at[0].store.says(first.Err)
		if len(at) == 2 {
			second := batches[at[1].store].answers[at[1].index]
			second.Err = at[1].store.says(second.Err)
			first = s.bothRenewed(at[0].store, at[1].store, cs[i], first, second)
		}
		renewals[i] = first
	}
	return renewals
}

// Leave is [driver.Driver].
func (s *shards) Leave(ctx context.Context, l *driver.Release) error {
	from, to := s.homes(l.Claim.Name)
	if from != nil {
		return s.leaveBoth(ctx, from, to, l)
	}
	return to.says(to.Leave(ctx, l))
}
