package jobs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/stilelock/stile"
)

// A Job is work with a schedule. Make it with [New], and run it once in each program.
type Job struct {
	client   *stile.Client
	name     string
	text     string // the schedule as text
	schedule schedule
	work     func(context.Context) error
	o        Options
	lock     *stile.Lock
	ended    time.Time // the last tick whose run returned here, whether or not the store has its end; only Run uses it
}

// Options are a job's settings. The zero value, and nil, mean the defaults.
type Options struct {
	// Zone is the time zone of a cron expression. Nil means UTC, since machines may have different zones.
	Zone *time.Location

	// AtLeast keeps the job's lock for this time after a run began, if its machine lives: no other run begins sooner.
	// It must be shorter than the time between two ticks, and longer than the difference between the machines' clocks. A
	// store keeps a lock for 24 hours at most, and Redlock for a minute.
	AtLeast time.Duration

	// MaxHold ends the context of a run after this time. If the run does not return then, it loses its lock ten seconds
	// later, or after another MaxHold if that is sooner, and the next run may begin elsewhere. 0 means never.
	MaxHold time.Duration

	// Missed decides what happens to ticks that had no run. The zero value is [Skip].
	Missed Missed

	// Jitter delays each tick on each machine by a random time up to this one, so that not all ask the store at once. It
	// must be shorter than the time between two ticks.
	Jitter time.Duration

	// Report gets the result of each tick, in order. It must not block for long. Nil means that nobody gets it.
	Report func(Result)
}

// Missed is the treatment of ticks without a run: the store was down, no machine was up, an earlier run took too long, or
// the run was cut off because its machine died.
type Missed int

const (
	Skip    Missed = iota // they do not run
	RunOnce               // only the latest of them runs, as soon as possible
	RunAll                // each of them runs, in order; of very many, the last thousand
)

// New returns a job. The name is also the name of its lock. The schedule is a cron expression of five fields, "@daily" and
// the like, or "@every 10m", which ticks at the same moments everywhere. "CRON_TZ=Europe/Berlin " before an expression sets
// its zone. The work must return when its context ends. No name may end in "/last" or "/copy": these suffixes make the names
// that keep a job's last tick.
//
// The error names the position of a mistake in the schedule. It is [stile.ErrUnsupported] if another machine cannot replace
// the store's record of the last tick.
func New(client *stile.Client, name, schedule string, work func(context.Context) error, o *Options) (*Job, error) {
	j := &Job{client: client, name: name, text: schedule, work: work}
	if o != nil {
		j.o = *o
	}
	if j.o.Zone == nil {
		j.o.Zone = time.UTC
	}
	var err error
	if j.schedule, err = parse(schedule, j.o.Zone); err == nil {
		err = j.check()
	}
	if err != nil {
		return nil, fmt.Errorf("jobs: job %q: %w", name, err)
	}
	j.lock = client.Mutex(name)
	if j.o.MaxHold > 0 {
		grace := min(j.o.MaxHold, 10*time.Second, math.MaxInt64-j.o.MaxHold)
		j.lock = j.lock.With(stile.LockOptions{MaxHold: j.o.MaxHold + grace})
	}
	return j, nil
}

// check returns an error for wrong options.
func (j *Job) check() error {
	for _, place := range places("") {
		if of, ok := strings.CutSuffix(j.name, place); ok {
			return fmt.Errorf("a name cannot end in %s: the last tick of job %q is kept there", place, of)
		}
	}
	switch {
	case j.work == nil:
		return errors.New("it has nothing to do: the function is nil")
	case j.o.AtLeast < 0 || j.o.MaxHold < 0 || j.o.Jitter < 0:
		return errors.New("a time in its options is negative")
	case j.o.MaxHold > 0 && j.o.MaxHold < j.o.AtLeast:
		return fmt.Errorf("MaxHold %v is shorter than AtLeast %v", j.o.MaxHold, j.o.AtLeast)
	case j.o.Missed < Skip || j.o.Missed > RunAll:
		return fmt.Errorf("Missed is %d: want Skip, RunOnce or RunAll", j.o.Missed)
	}
	t := j.client.Traits()
	if t.OwnClient || t.ShortRecord {
		return fmt.Errorf("%w: %s keeps no record of the last tick that another machine can replace",
			stile.ErrUnsupported, t.Store)
	}
	if err := j.checkTicks(); err != nil {
		return err
	}
	if j.o.AtLeast > longest(t) {
		return fmt.Errorf("AtLeast %v: %s keeps a lock for %v at most", j.o.AtLeast, t.Store, longest(t))
	}
	return nil
}

// checkTicks returns an error if ticks are too close to each other for the options.
func (j *Job) checkTicks() error {
	tick := j.schedule.next(time.Now())
	for range 200 { // few schedules need more ticks than this to repeat
		after := j.schedule.next(tick)
		if after.IsZero() {
			return nil
		}
		if gap := after.Sub(tick); gap <= j.o.AtLeast || gap <= j.o.Jitter {
			return fmt.Errorf("schedule %q has ticks %v apart, at %s: AtLeast (%v) and Jitter (%v) must be shorter",
				j.text, gap, tick.In(j.o.Zone).Format(time.RFC3339), j.o.AtLeast, j.o.Jitter)
		}
		tick = after
	}
	return nil
}

// Next returns the first tick after a moment.
func (j *Job) Next(after time.Time) time.Time { return j.schedule.next(after) }
