package redis

import (
	"context"
	"time"

	"github.com/stilelock/stile/driver"
)

// watchPoll is how often a watch reads if the server reports no changes, and during a lock-delay, whose end no listing
// shows.
const watchPoll = 250 * time.Millisecond

// Watch is [driver.Watcher.Watch]. The server reports every change of a key that this client has read, by any client (CLIENT
// TRACKING), so a watch costs the holders nothing. The end of a lease changes no key: the watch reads again when the next
// lease ends. In a cluster, and if this user may not track, the watch polls.
func (d *Driver) Watch(ctx context.Context, name string, changed func()) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := d.watchOnce(ctx, name, changed, timer); err != nil {
			return err
		}
	}
}

// watchOnce calls changed at the next report, and waits until there is a reason to read again.
func (d *Driver) watchOnce(ctx context.Context, name string, changed func(), timer *time.Timer) error {
	key := d.key(name)
	signal, err := d.conn.Signal(ctx, key)
	defer d.conn.ReleaseSignal(key, signal)
	if err == nil {
		changed()
	}
	wait := time.Duration(0)
	switch {
	case err != nil:
	case signal == nil:
		wait = watchPoll
	default:
		wait, err = d.untilExpiry(ctx, name)
	}
	switch {
	case d.conn.Context().Err() != nil:
		return driver.ErrClosed
	case ctx.Err() != nil:
		return driver.Ended(ctx, true)
	case err != nil:
		return err
	}
	var over <-chan time.Time
	if wait > 0 {
		timer.Reset(wait)
		over = timer.C
	}
	select {
	case <-signal:
	case <-over:
	case <-ctx.Done():
	case <-d.conn.Context().Done():
	}
	return nil
}

// untilExpiry returns the time until a claim of the name runs out; 0 if there is none.
func (d *Driver) untilExpiry(ctx context.Context, name string) (next time.Duration, err error) {
	list, err := d.List(ctx, &driver.Query{Name: name})
	if err != nil || len(list) == 0 {
		return 0, err
	}
	next = driver.MaxTTL
	for _, c := range list[0].Claims {
		if c.Remaining > 0 {
			next = min(next, c.Remaining+time.Millisecond)
		} else {
			next = min(next, watchPoll)
		}
	}
	return next, nil
}
