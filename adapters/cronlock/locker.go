package cronlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stilelock/stile"
)

// Options are a locker's settings. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix precedes the names of jobs in the names of their locks.
	Prefix string

	// AtLeast makes SkipIfHeld keep the lock of a job for this time after a run began, at most 24 h, so that a machine whose
	// clock is late does not run the same tick again. It must be shorter than the time between two ticks. 0 means that the
	// lock is not kept.
	AtLeast time.Duration

	// Logger gets the reason why a run was skipped, and the loss of a lease in a run. Nil means cron.DefaultLogger.
	Logger cron.Logger
}

// A Locker makes wrappers for the chains of jobs. Make it with [New]. It serves one schedule or several.
type Locker struct {
	client *stile.Client
	o      Options

	mu   sync.Mutex
	runs map[string]*stile.Lease // by the job's name
}

// New returns a locker over a client. The caller closes the client after the context of cron's Stop has ended.
func New(client *stile.Client, o *Options) (*Locker, error) {
	l := &Locker{client: client, runs: map[string]*stile.Lease{}}
	if o != nil {
		l.o = *o
	}
	if l.o.AtLeast < 0 {
		return nil, fmt.Errorf("cronlock: AtLeast is %v: it must not be negative", l.o.AtLeast)
	}
	if l.o.Logger == nil {
		l.o.Logger = cron.DefaultLogger
	}
	return l, nil
}

// SkipIfHeld returns a wrapper by which a tick runs on one machine: it takes the lock of the job's name without waiting. If
// another machine has the lock, or an earlier run of this machine, it skips the tick and logs this as information. If it
// cannot take the lock for another reason, it skips the tick too, and logs an error.
func (l *Locker) SkipIfHeld(job string) cron.JobWrapper {
	return l.wrap(job, l.o.AtLeast, func(ctx context.Context, lock *stile.Lock) (*stile.Lease, error) { return lock.TryLock(ctx) })
}

// DelayIfHeld returns a wrapper by which the runs of a job on all machines come one after the other. A run waits for the
// lock for atMost, and is then skipped, as in SkipIfHeld. cron's Stop waits for waiting runs.
func (l *Locker) DelayIfHeld(job string, atMost time.Duration) cron.JobWrapper {
	return l.wrap(job, 0, func(ctx context.Context, lock *stile.Lock) (*stile.Lease, error) { return lock.LockWithin(ctx, atMost) })
}

func (l *Locker) wrap(job string, atLeast time.Duration, take func(context.Context, *stile.Lock) (*stile.Lease, error)) cron.JobWrapper {
	return func(inner cron.Job) cron.Job {
		return cron.FuncJob(func() {
			begin := time.Now()
			lease, err := take(context.Background(), l.client.Mutex(l.o.Prefix+job))
			if held, ok := errors.AsType[*stile.HeldError](err); ok {
				l.o.Logger.Info("cronlock: left out", "job", job, "because", held)
				return
			} else if err != nil {
				l.o.Logger.Error(fmt.Errorf("cronlock: job %q: %w", job, err), "cronlock: left out", "job", job)
				return
			}
			l.begin(job, lease)
			defer func() { // also if the job panics
				l.end(job, lease)
				if err := lease.UnlockAfter(atLeast - time.Since(begin)); err != nil {
					l.o.Logger.Error(fmt.Errorf("cronlock: job %q: %w", job, err), "cronlock: ran", "job", job)
				}
			}()
			inner.Run()
		})
	}
}

// Lease returns the lease under which a job runs here, or nil. A run uses it to send the lease's token with its writes, and
// to end with the lease's context, as cron gives jobs no context.
func (l *Locker) Lease(job string) *stile.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[job]
}

func (l *Locker) begin(job string, lease *stile.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[job] = lease
}

// end forgets a run, but not a run that began after this one's lease was lost.
func (l *Locker) end(job string, lease *stile.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs[job] == lease {
		delete(l.runs, job)
	}
}
