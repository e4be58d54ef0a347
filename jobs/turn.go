package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile"
)

// most bounds the missed ticks that are made up for.
const most = 1000

// turn does the work that is due after the tick seen: it runs a tick, or finds that the tick has had its run. It returns the
// last tick that needs no more work. The error says that the store could not be asked, or that the run was cut off and must
// be repeated.
func (j *Job) turn(ctx context.Context, seen time.Time) (time.Time, error) {
	due := j.due(seen, time.Now())
	if n := len(due); n > 0 && j.o.Missed == Skip {
		if tick := due[n-1]; time.Since(tick) > j.late(tick) {
			j.report(Result{Job: j.name, Tick: tick, Outcome: Late})
			return tick, nil
		}
	}
	r, err := j.attempt(ctx, seen)
	switch {
	case r.Outcome == "" && (ctx.Err() != nil || permanent(err)): // Run reports it
		return seen, err
	case err != nil:
		r = Result{Job: j.name, Outcome: Trouble, Err: err}
	case r.Outcome == "":
		r = Result{Job: j.name, Outcome: Elsewhere}
	}
	if !r.Tick.IsZero() {
		j.report(r)
		return r.Tick, j.owing(r)
	}
	if due = j.due(seen, time.Now()); len(due) > 0 {
		r.Tick = due[len(due)-1]
		j.report(r)
	}
	if err != nil && j.o.Missed != Skip || r.Tick.IsZero() {
		return seen, err
	}
	return r.Tick, err
}

var errCutOff = errors.New("the run was cut off")

// owing returns an error if a run must be made up for.
func (j *Job) owing(r Result) error {
	if r.Outcome == CutOff && j.o.Missed != Skip {
		return errCutOff
	}
	return nil
}

// due returns the ticks after one moment, up to another: only the last of them if there are very many.
func (j *Job) due(after, now time.Time) (ticks []time.Time) {
	for tick := j.schedule.next(after); !tick.IsZero() && !tick.After(now); tick = j.schedule.next(tick) {
		if len(ticks) == 2*most {
			ticks = append(ticks[:0], ticks[most:]...)
		}
		ticks = append(ticks, tick)
	}
	return ticks[max(0, len(ticks)-most):]
}

// late returns how long after a tick Skip still runs it.
func (j *Job) late(tick time.Time) time.Duration {
	return j.o.Jitter + min(j.schedule.next(tick).Sub(tick)/2, time.Minute)
}

// attempt takes the job's lock and runs the tick that is due. The result is zero if none is due, or if another machine has
// the lock and this one must not wait for it.
func (j *Job) attempt(ctx context.Context, seen time.Time) (Result, error) {
	last, err := j.recall(ctx)
	if err != nil || j.pick(last, seen).IsZero() {
		return Result{}, err
	}
	take := j.lock.Lock
	if j.o.Missed == Skip {
		take = j.lock.TryLock
	}
	lease, err := take(ctx)
	if errors.Is(err, stile.ErrHeld) {
		return Result{}, nil
	} else if err != nil {
		return Result{}, err
	}
	defer lease.Unlock() //nolint:errcheck // only for work that ends its goroutine: the second call is harmless
	begin := time.Now()
	if last, err = j.recall(ctx); err == nil {
		if tick := j.pick(last, seen); !tick.IsZero() {
			if last, err = j.remember(ctx, last, j.begun(tick, lease.Ticket())); err == nil {
				return j.done(lease, begin, j.run(ctx, lease, last)), nil
			}
		}
	}
	return Result{}, errors.Join(err, known(lease.Unlock()))
}

// known drops the error that only says that a lock is released later than possible.
func known(err error) error {
	if errors.Is(err, stile.ErrUnknown) {
		return nil
	}
	return err
}

// run runs the tick of the record. Then it records that the tick is over, unless another machine may have the job.
func (j *Job) run(ctx context.Context, lease *stile.Lease, last record) Result {
	r := j.called(ctx, lease, last.Tick)
	lost := r.Outcome == CutOff && errors.Is(r.Err, stile.ErrLost)
	if r.Outcome == Stopped || lost || lease.Check() != nil {
		return r
	}
	j.ended = last.Tick
	// The store must be asked even if ctx has ended.
	if _, err := j.remember(context.WithoutCancel(ctx), last, last.ended(r)); err != nil {
		r.Err = errors.Join(r.Err, fmt.Errorf("the end of the run is not recorded, so another machine may run the tick again: %w", err))
	}
	return r
}

// pick returns the tick to run, given the tick that was begun last, or zero.
func (j *Job) pick(last record, seen time.Time) time.Time {
	if !last.Tick.IsZero() {
		seen = last.Tick
		if last.Stage == started && j.o.Missed != Skip {
			seen = seen.Add(-1) // under the job's lock: its run was cut off
		}
	}
	if seen.Before(j.ended) {
		seen = j.ended // the store has lost this tick, or never got it
	}
	due := j.due(seen, time.Now())
	switch {
	case len(due) == 0:
		return time.Time{}
	case j.o.Missed == RunAll:
		return due[0]
	}
	return due[len(due)-1]
}
