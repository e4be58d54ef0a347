package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/stilelock/stile"
)

// An Outcome is the outcome of a tick on this machine.
type Outcome string

// The outcomes.
const (
	Done      Outcome = "done"      // it ran here, without an error
	Failed    Outcome = "failed"    // it ran here, and returned Result.Err
	Panicked  Outcome = "panicked"  // it ran here, and panicked: Result.Err is a *PanicError
	CutOff    Outcome = "cut off"   // the lease was lost, even before the work began, or MaxHold was over, or the work says so
	Stopped   Outcome = "stopped"   // it ran here until the context of Run ended, even before the work began
	Elsewhere Outcome = "elsewhere" // another machine runs the job, or has run it since the tick
	Late      Outcome = "late"      // this machine was too late for it, such as after a sleep, and Skip leaves it out
	Trouble   Outcome = "trouble"   // the store did not say whether it may run here: Result.Err has the reason
)

// A Result is the result of a tick on this machine.
type Result struct {
	Job     string
	Tick    time.Time // zero for RunNow
	Outcome Outcome
	Ticket  int64         // Lease.Ticket of the run; 0 if it did not run here
	Took    time.Duration // duration of the run
	Err     error
}

// A PanicError is the panic of a run.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns the value as text.
func (e *PanicError) Error() string { return fmt.Sprintf("the job panicked: %v", e.Value) }

// errMaxHold is the cause of the context of a run that took too long.
var errMaxHold = fmt.Errorf("%w: the run took longer than MaxHold", context.DeadlineExceeded)

// ErrFinish is a cause for the end of the context of [Job.Run]. With this cause the present run goes on to its end.
var ErrFinish = errors.New("no more ticks are run here")

type tickKey struct{}

// Tick returns the tick of the run with this context. It is zero in a run of [Job.RunNow], and outside of runs.
func Tick(ctx context.Context) time.Time {
	tick, _ := ctx.Value(tickKey{}).(time.Time)
	return tick
}

// called runs the work under a lease, and returns the result.
func (j *Job) called(ctx context.Context, lease *stile.Lease, tick time.Time) Result {
	ctx, over := unlessFinishing(ctx)
	defer over()
	if err := ended(ctx, lease); err != nil {
		r := Result{Job: j.name, Tick: tick, Ticket: lease.Ticket(), Outcome: CutOff, Err: err}
		if ctx.Err() != nil && !errors.Is(err, stile.ErrLost) {
			r.Outcome = Stopped
		}
		return r
	}
	run, cancel := underBoth(ctx, lease)
	defer cancel()
	run = context.WithValue(run, tickKey{}, tick)
	begin := time.Now()
	if j.o.MaxHold > 0 {
		var end context.CancelFunc
		run, end = context.WithDeadlineCause(run, begin.Add(j.o.MaxHold), errMaxHold)
		defer end()
	}
	err := recovered(run, j.work)
	r := Result{Job: j.name, Tick: tick, Ticket: lease.Ticket(), Took: time.Since(begin), Err: err}
	cause := context.Cause(run)
	switch {
	case errors.As(err, new(*PanicError)):
		r.Outcome = Panicked
	case errors.Is(cause, stile.ErrLost) || errors.Is(cause, errMaxHold) && err != nil:
		r.Outcome, r.Err = CutOff, cause
	case err == nil:
		r.Outcome = Done
	case tellsLoss(err, lease):
		r.Outcome = CutOff
	case ctx.Err() != nil:
		r.Outcome = Stopped
	default:
		r.Outcome = Failed
	}
	return r
}

// tellsLoss reports whether the work ended because this lease was lost, or was about to be: a run that stops other programs
// in time ends before the lease does.
func tellsLoss(err error, lease *stile.Lease) bool {
	e, ok := errors.AsType[*stile.Error](err)
	return ok && e.Name == lease.Name() && errors.Is(e, stile.ErrLost)
}

// unlessFinishing returns a context that ends with ctx, unless the cause is [ErrFinish].
func unlessFinishing(ctx context.Context) (context.Context, context.CancelFunc) {
	until, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	end := func() {
		if cause := context.Cause(ctx); !errors.Is(cause, ErrFinish) {
			cancel(cause)
		}
	}
	if ctx.Err() != nil {
		end() // at once: AfterFunc would do so a moment later
	}
	stop := context.AfterFunc(ctx, end)
	return until, func() {
		stop()
		cancel(nil)
	}
}

// done releases the lock of a run when AtLeast is over.
func (j *Job) done(lease *stile.Lease, begin time.Time, r Result) Result {
	err := lease.UnlockAfter(j.o.AtLeast - time.Since(begin))
	if errors.Is(err, stile.ErrLost) && r.Outcome != CutOff {
		r.Outcome, r.Err = CutOff, err
	}
	return r
}

func (j *Job) report(r Result) {
	if j.o.Report != nil {
		j.o.Report(r)
	}
}

func recovered(ctx context.Context, work func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return work(ctx)
}
