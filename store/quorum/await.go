package quorum

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	pollLeast = 10 * time.Millisecond // between looks at nodes that do not notify
	pollMost  = 50 * time.Millisecond
)

// Await waits until the claim may get the name. It waits at the lead until the lead may be free. A claim that heard so and
// came too late pauses for a random moment: so a release wakes a few waiters, however many there are, and one of them has a
// good chance. If no node leads, Await waits until a majority may be free, and then a moment more, so that one of many
// waiters finds all nodes free. If the nodes are no members, Await returns after a random pause.
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

// awaitMajority returns when a majority of the nodes may be free, or when so many nodes fail that there is no majority.
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

// free reports whether a majority of the nodes may be free, and is true if too few answer. The claim's own remains there are
// on their way out.
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
