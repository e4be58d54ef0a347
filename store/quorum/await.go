package quorum

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	pollLeast = 10 * time.Millisecond // between looks at nodes that do not tell
	pollMost  = 50 * time.Millisecond
)

// Await waits until the node may be free that leads the claims of the name. A claim that heard so and came too late
// looks away for a moment, at random: so a release wakes a few, however many wait, and one of them has a good chance. Where
// no node leads, it waits until a majority may be free, and then a moment more, so that one of many finds them all free.
// Nodes that are no members are looked at now and then.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if d.leads.wasLate(c.ID) {
		return driver.Place{}, d.workers.pause(ctx, d.contention.spread(c.Name))
	}
	if lead := d.lead(c.Name); lead != nil {
		told, err := d.awaitLead(ctx, lead, c)
		if told || err != nil {
			return driver.Place{}, err
		}
	}
	for {
		wait := pollLeast + rand.N(pollMost-pollLeast)
		if d.rule.ranked {
			if err := d.awaitMajority(ctx, c); err != nil {
				return driver.Place{}, err
			}
			wait = d.contention.spread(c.Name)
		}
		if err := d.workers.pause(ctx, wait); err != nil {
			return driver.Place{}, err
		}
		if !d.rule.ranked || d.free(ctx, c) {
			return driver.Place{}, nil
		}
	}
}

// awaitMajority returns when so many nodes say that the name may be free, or cannot say, that a majority may be.
func (d *Driver) awaitMajority(ctx context.Context, c *driver.Claim) error {
	waiting, stop := context.WithCancel(ctx)
	told := make(chan error, len(d.nodes.list)) // nil from a node that may be free
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for _, n := range d.nodes.list {
		all.Go(func() {
			store, err := n.store()
			if err == nil {
				_, err = store.Await(waiting, c)
			}
			told <- err
		})
	}
	free, failed := 0, 0
	for {
		select {
		case <-ctx.Done():
			return driver.Ended(ctx, true)
		case <-d.workers.closed:
			return driver.ErrClosed
		case err := <-told:
			if err == nil {
				free++
			} else {
				failed++
			}
		}
		switch {
		case free >= d.rule.need:
			return nil
		case d.rule.prevents(failed):
			return d.workers.pause(ctx, pollMost) // its next Enter returns the error
		}
	}
}

// free reports whether a majority of the nodes is, or cannot be asked. What the claim itself leaves behind there is on its way out.
func (d *Driver) free(ctx context.Context, c *driver.Claim) bool {
	r, err := d.rounds.ask(d.timeout(c.TTL), c.ID, nil, func(votes []vote) bool {
		return d.rule.granted(votes) || d.rule.taken(votes)
	}, func(ctx context.Context, n *node) (driver.Place, error) {
		store, err := n.store()
		if err != nil {
			return driver.Place{}, err
		}
		free, err := store.(Member).Free(ctx, c.Name)
		return driver.Place{Holds: free}, err
	})
	if err != nil {
		return true
	}
	votes, err := r.wait(ctx)
	return err != nil || !d.rule.taken(votes)
}
