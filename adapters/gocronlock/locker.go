package gocronlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stilelock/stile"
)

// Options are a locker's settings. The zero value, and nil, mean the defaults.
type Options struct {
	// Prefix precedes the names of jobs in the names of their locks.
	Prefix string

	// AtLeast keeps the lock of a job for this time after a run began, at most 24 h, so that a machine whose clock is late
	// does not run the same tick again. It must be shorter than the time between two ticks. 0 means that the lock is not
	// kept.
	AtLeast time.Duration
}

// A Locker is a [gocron.Locker]. Make it with [NewLocker]. It serves one scheduler or several.
type Locker struct {
	client *stile.Client
	o      Options

	mu   sync.Mutex
	runs map[string]*stile.Lease // by the job's name
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a locker over a client. The caller closes the client after the scheduler has shut down.
func NewLocker(client *stile.Client, o *Options) *Locker {
	l := &Locker{client: client, runs: map[string]*stile.Lease{}}
	if o != nil {
		l.o = *o
	}
	return l
}

// Lock takes the lock of a job without waiting. If another machine has it, the error is [stile.ErrHeld], and gocron skips
// this run. Each job needs a name of its own, by gocron.WithName: otherwise gocron uses the name of its function, and jobs
// made by the same function share it.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	if l.o.AtLeast < 0 {
		return nil, fmt.Errorf("gocronlock: job %q: AtLeast is %v: it must not be negative", key, l.o.AtLeast)
	}
	lease, err := l.client.Mutex(l.o.Prefix + key).TryLock(ctx)
	if err != nil {
		return nil, fmt.Errorf("gocronlock: job %q: %w", key, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[key] = lease
	return &run{l, key, lease, time.Now()}, nil
}

// Lease returns the lease under which a job runs here, or nil. A run uses it to send the lease's token with its writes, and
// to end with the lease's context, since gocron's own context does not.
func (l *Locker) Lease(job string) *stile.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[job]
}

// A run is the lock of one run.
type run struct {
	l     *Locker
	key   string
	lease *stile.Lease
	begin time.Time
}

// Unlock releases the lock, or keeps it until AtLeast is over, even if the context has ended. The error is [stile.ErrLost]
// if another machine may have run the job meanwhile; gocron ignores it, but an Observer gets an event.
func (r *run) Unlock(context.Context) error {
	r.l.mu.Lock()
	if r.l.runs[r.key] == r.lease {
		delete(r.l.runs, r.key)
	}
	r.l.mu.Unlock()
	if err := r.lease.UnlockAfter(r.l.o.AtLeast - time.Since(r.begin)); err != nil {
		return fmt.Errorf("gocronlock: job %q: %w", r.key, err)
	}
	return nil
}
