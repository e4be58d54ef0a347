package consul

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
)

// watchAfter is how long a claim holds before its key is watched: most critical sections are over by then.
const watchAfter = 300 * time.Millisecond

// watchSoonLocked starts to watch the key of a claim after it has held for watchAfter.
func (d *Driver) watchSoonLocked(lc *localClaim, index uint64) {
	if lc.watch == nil && d.endangered != nil && d.claims.known[lc.id] == lc {
		lc.watch = time.AfterFunc(watchAfter, func() { d.watchOver(lc, index) })
	}
}

// watchOver calls endangered when the key of a claim that holds no longer belongs to its session.
func (d *Driver) watchOver(lc *localClaim, index uint64) {
	d.mu.Lock()
	if d.ctx.Err() != nil || lc.state != claimHolding || lc.stop != nil {
		d.mu.Unlock()
		return
	}
	if !d.queries.take(true) { // a renewal will notice, a little later
		d.mu.Unlock()
		return
	}
	ctx, stop := context.WithCancel(d.ctx)
	lc.stop = stop
	tell, key, session := d.endangered, lc.key, lc.session.id
	d.life.Go(func() {
		defer d.queries.free(true)
		defer stop()
		t := &target{key: key, index: index}
		for ctx.Err() == nil {
			pairs, err := d.agent.changed(ctx, t)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				pause(ctx, time.Second)
				t.index = 1
			case len(pairs) != 1 || pairs[0].Session != session:
				tell(lc.id)
				return
			}
		}
	})
	d.mu.Unlock()
}

// unwatchLocked stops the watching of a claim's key.
func (lc *localClaim) unwatchLocked() {
	if lc.watch != nil {
		lc.watch.Stop()
	}
	if lc.stop != nil {
		lc.stop()
	}
	lc.watch, lc.stop = nil, nil
}

func pause(ctx context.Context, length time.Duration) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Watch has one blocking query open at a time, on all keys of the name.
func (d *Driver) Watch(ctx context.Context, name string, changed func()) error {
	t := &target{key: folderOf(d.prefix, name), recurse: true}
	if _, index, err := d.agent.read(ctx, t.key, true, 0, 0); err != nil {
		return err
	} else if t.index = max(1, index); d.ctx.Err() != nil {
		return driver.ErrClosed
	}
	for {
		changed()
		_, err := d.agent.changed(ctx, t)
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
