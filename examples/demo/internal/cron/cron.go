//go:build unix

// Package cron is a demo of a job on many machines.
package cron

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/examples/demo/internal/store"
	"github.com/stilelock/stile/examples/demo/internal/verb"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/exit"
)

const cronDemoLong = `Machines, which are processes here, have the same job, due each second. Half of
them have a schedule of their own, as cron has: each runs each tick. The others
share the job's lock and its last tick, so that one of them runs a tick.

One machine with the lock is killed in the middle of a run: another runs that tick
again, with a higher token, when the lease has run out. Another run is stuck: it is
cut off after --max-hold, and the ticks that it held up are made up for.

The lock is in a new SQLite file, or in the store of --url or STILE_URL. Exits with
0 if with the lock each tick came to its end once, but for the stuck one, and
without it some tick did so more than once; otherwise with 1.`

const cronMaxHold = 1500 * time.Millisecond

// A cronDemo is one run of the demo.
type cronDemo struct {
	demo.Display
	machines int
	ttl      time.Duration
}

// New returns the verb.
func New(s *store.Store) *verb.Verb {
	d := &cronDemo{}
	v := verb.New("cron", "Run a job on many machines, each for itself and then once for all", cronDemoLong)
	v.Run = func(ctx context.Context, out io.Writer) error {
		if err := d.Begin(out, verb.Terminal(), v.Given); err != nil {
			return err
		}
		if d.machines < 3 || d.machines > 16 {
			return exit.Usage("--machines %d: it must be from 3 to 16, since one is killed and one is stuck", d.machines)
		}
		return d.run(ctx, s)
	}
	s.Flags(v.Flags)
	d.Flags(v.Flags, "three ticks, and a lease of 1s")
	v.Flags.IntVar(&d.machines, "machines", 3, "how many have the job, without the lock and with it")
	return v
}

func (d *cronDemo) run(ctx context.Context, s *store.Store) error {
	setup, err := demo.NewSetup(ctx, s)
	if err != nil {
		return err
	}
	defer setup.Close()
	if err := d.fits(setup); err != nil {
		return err
	}
	free := &fleet{title: "without lock", machines: d.machines}
	locked := &fleet{title: "with lock", machines: d.machines, name: "demo/cron/" + rand.Text()[:8], killAt: 1, stickAt: 3}
	locked.tokenless = setup.Traits.Fencing == driver.NoFencing
	ticks := 6
	if d.Quick {
		ticks, locked.killAt, locked.stickAt = 3, 0, 1
	}
	d.Say("%d machines have a job that is due each second, and so have %d others with a lock, kept in %s.", d.machines,
		d.machines, setup.Address)
	d.Say("One of those is killed in the run of tick %d, and the run of tick %d is stuck. A lease lasts %v.", locked.killAt+1,
		locked.stickAt+1, d.ttl)
	defer forget(setup.Client, locked.name)
	if err := d.runFleets(ctx, free, locked, setup.URL, ticks); err != nil {
		return d.halfDone(locked, err)
	}
	if err := d.Draw(cronTimeline(free, locked)); err != nil {
		return err
	}
	if err := d.print(free, locked); err != nil {
		return err
	}
	return judgeTicks(free, locked)
}

// fits chooses the lease, and refuses a store that cannot show the point of the demo.
func (d *cronDemo) fits(setup *demo.Setup) (err error) {
	if t := &setup.Traits; t.OwnClient || t.ShortRecord {
		return exit.Usage("%s keeps no record of the last tick that another machine can replace, so demo cron cannot show one; "+
			"leave --url out for a file on this machine", setup.Address)
	}
	d.ttl, err = setup.Lease(d.Quick)
	return err
}

// runFleets starts both fleets at the same moment and runs them side by side.
func (d *cronDemo) runFleets(ctx context.Context, free, locked *fleet, url string, ticks int) error {
	limit := demo.Limit + 4*d.ttl
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the ticks took longer than %v", limit))
	defer cancel()
	fleets := []*fleet{free, locked}
	for _, h := range fleets {
		within, end := context.WithCancel(ctx)
		h.Processes = demo.NewProcesses(url)
		defer h.Close(within, end)
		if err := h.open(within, d.ttl, cronMaxHold); err != nil {
			return fmt.Errorf("%s: %w", h.title, err)
		}
	}
	both, stopBoth := context.WithCancelCause(ctx)
	defer stopBoth(nil)
	var (
		parts sync.WaitGroup
		errs  [2]error
	)
	for i, h := range fleets {
		parts.Go(func() {
			// Without a lock no run holds up another, so two ticks are enough.
			if errs[i] = h.run(both, []int{2, ticks}[i], func(over int) { d.over(h, over, ticks) }); errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", h.title, errs[i])
				stopBoth(errs[i])
			}
		})
	}
	parts.Wait()
	d.Erase()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if cause := context.Cause(both); cause != nil { // the first failure; it also ended the other part
		return cause
	}
	return errors.Join(errs[:]...)
}

func (d *cronDemo) over(h *fleet, over, ticks int) {
	if h.name != "" {
		d.Progress("%d of %d ticks are over", over, ticks)
	}
}

// forget removes the last tick, which would stay for a day.
func forget(c *stile.Client, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for _, at := range []string{"/copy", "/last"} {
		_, _ = c.Break(ctx, name+at, stile.BreakOptions{Head: true}) // there may be none
	}
}

// halfDone adds the known and the unknown facts about the ticks to an error.
func (d *cronDemo) halfDone(h *fleet, err error) error {
	once, more, none := h.count()
	return demo.HalfDone(err,
		fmt.Sprintf("with the lock %d ticks came to their end once, %d more often, and %d not", once, more, none),
		demo.ClaimsLeft(h.name, d.ttl)+", or after 24h")
}

// count returns how many ticks came to their end once, more often, and never.
func (f *fleet) count() (once, more, none int) {
	for _, t := range f.ticks {
		switch t.Done {
		case 0:
			none++
		case 1:
			once++
		default:
			more++
		}
	}
	return once, more, none
}

func (f *fleet) runs() (n int) {
	for _, t := range f.ticks {
		n += len(t.Runs)
	}
	return n
}

// judgeTicks returns an error if a result is wrong.
func judgeTicks(free, locked *fleet) error {
	last := int64(0)
	for i, t := range locked.ticks {
		for _, r := range t.Runs {
			if r.token <= last && !locked.tokenless {
				return demo.Wrong("with the lock, the run of %s has token %d after %d", t.at(), r.token, last)
			}
			last = r.token
		}
		if i > 0 && t.Tick.Sub(locked.ticks[i-1].Tick) != time.Second {
			return demo.Wrong("with the lock, tick %s came after %s", t.at(), locked.ticks[i-1].at())
		}
		if text := locked.wrong(i, t); text != "" {
			return demo.Wrong("with the lock, %s", text)
		}
	}
	if _, more, _ := free.count(); more == 0 {
		return demo.Wrong("without a lock every tick was run once, so that this shows nothing")
	}
	return nil
}

func (t *tickPast) at() string { return t.Tick.UTC().Format(time.TimeOnly) }

// wrong returns the mistake in one tick with the lock, or "".
func (f *fleet) wrong(i int, t *tickPast) string {
	complete := i < len(f.ticks)-1 || t.Done+t.CutOff > 0 // the last one may still be under way
	switch {
	case t.Done > 1:
		return fmt.Sprintf("tick %s came to its end %d times", t.at(), t.Done)
	case i == f.killAt && len(t.Runs) < 2:
		return fmt.Sprintf("tick %s was not run again after its machine was killed", t.at())
	case i == f.stickAt && (t.CutOff != 1 || t.Done > 0):
		return fmt.Sprintf("the stuck run of %s was not cut off", t.at())
	case i != f.stickAt && complete && t.Done != 1:
		return fmt.Sprintf("tick %s did not come to its end", t.at())
	}
	return ""
}
