package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/stilelock/stile"
)

// running are the jobs of this program. Ends are the last ticks whose runs returned here, even for jobs that have stopped:
// the next job of the name goes on after them, for example when a crontab is read again.
var running, ends sync.Map

// A key identifies a job by its client and name.
type key struct {
	client weak.Pointer[stile.Client]
	name   string
}

// ended returns the last tick of a job whose run returned in this program; zero if there is none.
func (k key) ended() time.Time {
	tick, _ := ends.Load(k)
	at, _ := tick.(time.Time)
	return at
}

// renewRecord passes the last tick whose run returned to the next job of the name, while the client is in use.
func (k key) renewRecord(client *stile.Client, tick time.Time) {
	if tick.IsZero() {
		return
	}
	if _, before := ends.Swap(k, tick); !before {
		runtime.AddCleanup(client, func(k key) { ends.Delete(k) }, k)
	}
}

// Run runs the job at its ticks until ctx ends. It returns the cause of ctx when a run in progress has returned. The context
// of that run ends too, unless the cause is [ErrFinish]. A run that fails, panics or is cut off does not end Run, nor does a
// store that is down; [Options.Report] gets their results. An error that would be the same at the next tick ends Run: a
// closed client, or an invalid name.
//
// A program runs a name once: a second Run of the same name and client is an error, with any schedule.
func (j *Job) Run(ctx context.Context) error {
	k := key{weak.Make(j.client), j.name}
	if other, twice := running.LoadOrStore(k, j); twice {
		return fmt.Errorf("jobs: job %q runs in this program already, with schedule %q; this one has %q",
			j.name, other.(*Job).text, j.text)
	}
	defer running.Delete(k)
	j.ended = k.ended()
	defer func() { k.renewRecord(j.client, j.ended) }()
	return j.ticks(ctx, time.Now().Round(0)) // without the monotonic clock: the wall clock may be set
}

// ticks runs the job at its ticks after the moment seen.
func (j *Job) ticks(ctx context.Context, seen time.Time) error {
	wake := seen // for ticks that were missed before
	if j.o.Missed == Skip {
		wake = j.schedule.next(seen).Add(j.jitter())
	}
	for failures := 0; ; {
		if err := j.rest(ctx, wake, seen); err != nil {
			return err
		}
		if back(seen) {
			seen, j.ended = time.Now().Round(0), time.Time{}
			wake = j.schedule.next(seen).Add(j.jitter())
			continue
		}
		var err error
		if seen, err = j.turn(ctx, seen); ctx.Err() != nil {
			return context.Cause(ctx)
		} else if permanent(err) {
			return fmt.Errorf("jobs: job %q: %w", j.name, err)
		}
		if wake = j.schedule.next(seen); wake.IsZero() {
			return fmt.Errorf("jobs: job %q: schedule %q has no more ticks", j.name, j.text)
		}
		wake = wake.Add(j.jitter())
		if failures++; err == nil || j.o.Missed == Skip {
			failures = 0
		} else { // the tick is still due
			wake = time.Now().Add(min(pause<<min(failures-1, 8), longPause))
		}
	}
}

// back reports whether the clock was set back since a moment, by more than the correction of a right clock. Then the clock
// was ahead, and so are the ticks that were seen: a job that went on after them would not run until that time.
func back(seen time.Time) bool { return time.Until(seen) > time.Minute }

// Bounds of the pause between two tries of a missed tick. The pause doubles each time, since the cause of a cut-off run or
// of an unreachable store may last.
const (
	pause     = 5 * time.Second
	longPause = time.Minute
)

func permanent(err error) bool {
	return errors.Is(err, stile.ErrClosed) || errors.Is(err, stile.ErrInvalid) || errors.Is(err, stile.ErrUnsupported)
}

func (j *Job) jitter() time.Duration {
	if j.o.Jitter == 0 {
		return 0
	}
	return rand.N(j.o.Jitter)
}

// glance bounds each part of a sleep. After each part the clock is read: it may have been set, or the machine suspended.
const glance = time.Minute

// until returns at a time of the wall clock, or sooner if the clock is [back] from a moment, or when ctx ends, with the
// cause.
func until(ctx context.Context, at, seen time.Time) error {
	at = at.Round(0)
	for {
		left := at.Sub(time.Now().Round(0))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		} else if left <= 0 || back(seen) {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(left, glance)):
		}
	}
}

// RunNow runs the job once, now, outside its schedule. It waits until no other run goes on and AtLeast is over, and does not
// change the record of ticks. It returns the error of the work, or the reason why the work could not run or was cut off.
func (j *Job) RunNow(ctx context.Context) error {
	lease, err := j.lock.Lock(ctx)
	if err != nil {
		return fmt.Errorf("jobs: job %q: %w", j.name, err)
	}
	defer lease.Unlock() //nolint:errcheck // only for work that ends its goroutine: the second call is harmless
	begin := time.Now()
	r := j.done(lease, begin, j.called(ctx, lease, time.Time{}))
	j.report(r)
	return r.Err
}
