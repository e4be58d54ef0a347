package consul

import (
	"context"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	// maxWait is how long a blocking query stays open before it is sent again.
	maxWait = time.Minute

	// pollEvery is how often Await returns if the driver has no blocking query for it.
	pollEvery = time.Second
)

// A target is a key or a folder of keys, and the index from which a change is waited for.
type target struct {
	key     string
	recurse bool
	index   uint64
}

// changed waits until the keys of a target differ from its index, and returns the keys.
func (a *agent) changed(ctx context.Context, t *target) ([]pair, error) {
	for {
		if err := driver.Ended(ctx, true); err != nil {
			return nil, err
		}
		wait, end := maxWait, false
		if deadline, ok := ctx.Deadline(); ok {
			// The server adds up to a sixteenth. Cutting a query off costs its connection.
			wait = min(wait, time.Until(deadline)*15/17-20*time.Millisecond)
			end = wait < maxWait
		}
		if wait < time.Millisecond {
			<-ctx.Done()
			return nil, driver.Ended(ctx, true)
		}
		asked, cancel := context.WithTimeout(ctx, wait*17/16+patience)
		pairs, index, err := a.read(asked, t.key, t.recurse, max(1, t.index), wait)
		cancel()
		switch {
		case err != nil:
			return nil, err
		case index != t.index || index == 0:
			// After a restore the index may also be lower: the former count no longer means anything.
			t.index = max(1, index)
			return pairs, nil
		case end:
			<-ctx.Done()
			return nil, driver.Ended(ctx, true)
		}
	}
}

// Await waits until the claim's target changes, mostly the key ahead of it.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	if d.ctx.Err() != nil {
		return driver.Place{}, driver.ErrClosed
	}
	t, turn, err := d.targetOf(ctx, c)
	if err != nil || turn {
		return driver.Place{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	if t != nil {
		if d.queries.take(false) {
			defer d.queries.free(false)
		} else {
			t = nil
		}
	}
	if t == nil {
		poll := time.NewTimer(pollEvery)
		defer poll.Stop()
		select {
		case <-poll.C:
			return driver.Place{}, nil
		case <-ctx.Done():
			if d.ctx.Err() != nil {
				return driver.Place{}, driver.ErrClosed
			}
			return driver.Place{}, driver.Ended(ctx, true)
		}
	}
	_, err = d.agent.changed(ctx, t)
	if d.ctx.Err() != nil {
		return driver.Place{}, driver.ErrClosed
	}
	if err != nil {
		return driver.Place{}, err
	}
	if lc := d.claims.of(c); lc != nil {
		d.mu.Lock()
		if t.recurse {
			lc.folderIndex = t.index
		}
		lc.becomeLocked(claimCalled)
		d.mu.Unlock()
	}
	return driver.Place{}, nil
}

// targetOf returns the target that a claim waits for. If turn is true, there is nothing to wait for. A nil target means
// that the target is not known.
func (d *Driver) targetOf(ctx context.Context, c *driver.Claim) (t *target, turn bool, err error) {
	if lc := d.claims.of(c); lc != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if lc.wait == nil {
			return nil, lc.state == claimCalled || lc.state == claimHolding, nil
		}
		copied := *lc.wait
		return &copied, false, nil
	}
	q, err := d.look(ctx, c.Name)
	if err != nil {
		return nil, false, err
	}
	e := q.find(c.ID)
	if e == nil || e.Left {
		return nil, false, driver.ErrGone
	}
	i := slices.Index(q.entries, e)
	return q.waitsFor(i), i < q.entries.Holding() && !q.barred(), nil
}

// waitsFor returns the target that must change before entry i can hold. Mostly it is the one key ahead of the entry, so
// that a hand-over wakes one client.
func (q *queue) waitsFor(i int) *target {
	watched := q.entries.Watches(i)
	switch {
	case i == 0 && q.barred():
		return &target{key: q.lockKey.Key, index: q.lockKey.ModifyIndex}
	case i == 0:
		return nil
	case len(watched) == 1:
		e := q.entries[watched[0]]
		return &target{key: e.Key, index: e.ModifyIndex}
	}
	t := &target{key: q.folder, recurse: true}
	for _, e := range q.entries {
		t.index = max(t.index, e.ModifyIndex)
	}
	return t
}
