package jobs

import (
	"context"
	"time"

	"github.com/stilelock/stile"
)

// retention returns how long the store keeps a job's record, if nobody writes it again: 24 hours in most.
func retention(c *stile.Client) time.Duration {
	return longest(c.Traits())
}

// rest waits for a time of the wall clock, or until that is [back] from a moment, or ctx ends, and returns its cause.
// While the next tick is far off, the machines see to it that the last one is not forgotten: each looks at once, and
// then four times in as long as the store keeps the record, and a machine that finds it half gone writes it again.
// That takes the job's lock, so no machine does it shortly before a tick, which might find the lock taken.
func (j *Job) rest(ctx context.Context, at, seen time.Time) error {
	long := retention(j.client)
	for time.Until(at) > long/8 && !back(seen) {
		// A machine that cannot, because the store is away or another machine has the job, tries again later, and the
		// next tick reports trouble.
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
		// Between taking away the old claim and making the new one, an end of ctx would lose the record.
		_, err = j.remember(context.WithoutCancel(ctx), last, next)
	}
	if unlock := lease.Unlock(); err == nil {
		err = unlock
	}
	return err
}

func (j *Job) fades(r record) bool { return !r.Tick.IsZero() && r.age > retention(j.client)/2 }
