package consul

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	// watchAfter is how long a claim holds before its key is watched: most sections are over by then.
	watchAfter = 300 * time.Millisecond

	// maxWait is how long a blocking query stays open before it is asked anew.
	maxWait = time.Minute

	// maxQueries is how many blocking queries a driver has open. Each takes a connection, and an agent allows a client
	// 200 of them unless it is told otherwise.
	maxQueries = 120
	maxConns   = 160

	// pollEvery is how often Await returns where it would take one query too many.
	pollEvery = time.Second
)

// changed waits until the keys of a target are others than at its index, and returns them.
func (d *Driver) changed(ctx context.Context, t *target) ([]pair, error) {
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
		pairs, index, err := d.read(asked, t.key, t.recurse, max(1, t.index), wait)
		cancel()
		switch {
		case err != nil:
			return nil, err
		case index != t.index || index == 0:
			// It may also have gone backwards, after a restore: what it was counted from is gone.
			t.index = max(1, index)
			return pairs, nil
		case end:
			<-ctx.Done()
			return nil, driver.Ended(ctx, true)
		}
	}
}

// Await waits for the one key to change that the claim waits for.
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
		select {
		case d.queries <- struct{}{}:
			defer func() { <-d.queries }()
		default:
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
	_, err = d.changed(ctx, t)
	if d.ctx.Err() != nil {
		return driver.Place{}, driver.ErrClosed
	}
	if err != nil {
		return driver.Place{}, err
	}
	if st := d.stakeOf(c); st != nil {
		d.mu.Lock()
		st.become(claimCalled)
		d.mu.Unlock()
	}
	return driver.Place{}, nil
}

// targetOf returns what a claim waits for. With turn there is nothing to wait for, and nil means that it cannot be told.
func (d *Driver) targetOf(ctx context.Context, c *driver.Claim) (t *target, turn bool, err error) {
	if st := d.stakeOf(c); st != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if st.wait == nil {
			return nil, st.state == claimCalled || st.state == claimHolding, nil
		}
		copied := *st.wait
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
	peers := q.peers(e.Capacity)
	for i := range peers.entries {
		if peers.entries[i] == e {
			return peers.before(i), i < peers.holding() && !peers.barred(), nil
		}
	}
	return nil, false, driver.ErrGone
}

// watchOver tells the engine when the key of a claim that holds is not the claim's any more.
func (d *Driver) watchOver(st *stake, index uint64) {
	d.mu.Lock()
	if d.ctx.Err() != nil || st.state != claimHolding || st.stop != nil {
		d.mu.Unlock()
		return
	}
	select {
	case d.queries <- struct{}{}:
	default: // renewals will tell, a little later
		d.mu.Unlock()
		return
	}
	ctx, stop := context.WithCancel(d.ctx)
	st.stop = stop
	tell, key, session := d.endangered, st.key, st.session.id
	d.tasks.Go(func() {
		defer func() { <-d.queries }()
		defer stop()
		t := &target{key: key, index: index}
		for ctx.Err() == nil {
			pairs, err := d.changed(ctx, t)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				pause(ctx, time.Second)
				t.index = 1
			case len(pairs) != 1 || pairs[0].Session != session:
				tell(st.id)
				return
			}
		}
	})
	d.mu.Unlock()
}

// unwatch ends the watching over a claim. The caller holds mu.
func (st *stake) unwatch() {
	if st.watch != nil {
		st.watch.Stop()
	}
	if st.stop != nil {
		st.stop()
	}
	st.watch, st.stop = nil, nil
}

func pause(ctx context.Context, length time.Duration) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Watch is one blocking query at a time on all keys of the name.
func (d *Driver) Watch(ctx context.Context, name string, changed func()) error {
	t := &target{key: d.folder(name), recurse: true}
	if _, index, err := d.read(ctx, t.key, true, 0, 0); err != nil {
		return err
	} else if t.index = max(1, index); d.ctx.Err() != nil {
		return driver.ErrClosed
	}
	for {
		changed()
		_, err := d.changed(ctx, t)
		switch {
		case errors.Is(err, driver.ErrClosed), d.ctx.Err() != nil:
			return driver.ErrClosed
		case ctx.Err() != nil:
			return driver.Ended(ctx, true)
		case err != nil:
			return err
		}
	}
}
