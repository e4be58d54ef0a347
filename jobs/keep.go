package jobs

import (
	"context"
	"time"

	"github.com/stilelock/stile"
)

// retention returns how long the store keeps a job's record that nobody writes again: 24 hours in most stores.
func retention(c *stile.Client) time.Duration {
	return longest(c.Traits())
}

// rest waits for a time of the wall clock, or until the clock is [back] from a moment, or until ctx ends. Then it returns
// the cause. While the next tick is far off, the machines keep the record of the last one: each machine reads it at once,
// and then four times in the time for which the store keeps it. A machine that finds half of this time over writes the
// record again. This takes the job's lock, so no machine does it shortly before a tick, whose run might find the lock taken.
func (j *Job) rest(ctx context.Context, at, seen time.Time) error {
	long := retention(j.client)
	for time.Until(at) > long/8 && !back(seen) {
		// If the store is down, or another machine has the job, this machine tries again later. The next tick reports
		// trouble.
		_ = j.refresh(ctx)
		look := time.Now().Add(long / 4)
		if look.After(at) {
			break
		}
		if err := until(ctx, look, seen); err != nil {
			return err
		}
	}
	return until(ctx, at, seen)
}

// refresh writes the record again as it is, if half of its time is over.
func (j *Job) refresh(ctx context.Context) error {
	if last, err := j.recall(ctx); err != nil || !j.fades(last) {
		return err
	}
	lease, err := j.lock.TryLock(ctx)
	if err != nil {
		return err
	}
	last, err := j.recall(ctx)
	if err == nil && j.fades(last) {
		next := last
		next.By = &last.by
		// Between the removal of the old claim and the new one, an end of ctx would lose the record.
		_, err = j.remember(context.WithoutCancel(ctx), last, next)
	}
	if unlock := lease.Unlock(); err == nil {
		err = unlock
	}
	return err
}

func (j *Job) fades(r record) bool { return !r.Tick.IsZero() && r.age > retention(j.client)/2 }
