//go:build unix

package cron

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/theatre"
	"github.com/stilelock/stile/jobs"
)

// A hall is the machines of one part of the demonstration of jobs, and what became of the ticks there. With a lock, the
// machine that has begun the tick number killAt is killed in that run, and the run of the tick number stickAt is stuck.
// Both are done in answer to the run's own notice, so that they hit it whatever the machines' speed is.
type hall struct {
	title           string
	name            string // of the job; empty without a lock
	machines        int
	killAt, stickAt int
	tokenless       bool // the store's tokens need not rise

	*theatre.Cast
	ticks  []*tickPast // in the order in which they were begun first
	begun  time.Time
	took   time.Duration
	killed time.Time
	over   time.Duration // from the kill until the tick was begun again
}

// A tickPast is what became of a tick.
type tickPast struct {
	Tick    time.Time
	Runs    []tickRun
	Done    int // how many runs came to their end
	CutOff  int
	Trouble string
}

// A tickRun is one run that began.
type tickRun struct {
	machine      int
	token        int64
	begun, ended time.Duration // since the hall began
	killed       bool
	outcome      jobs.Outcome
}

// open starts the machines, and returns when all are ready.
func (h *hall) open(ctx context.Context, ttl, maxHold time.Duration) error {
	for range h.machines {
		if _, err := h.Hire(ctx, "machine", machineName, h.name, ttl.String(), maxHold.String()); err != nil {
			return err
		}
	}
	return h.Gather(ctx)
}

// run has the machines run until so many ticks are over.
func (h *hall) run(ctx context.Context, ticks int, show func(over int)) error {
	h.begun = time.Now()
	for _, c := range h.Actors {
		if err := c.Tell(orderStart); err != nil {
			return err
		}
	}
	for h.settled() < ticks {
		n, err := h.Next(ctx)
		if err != nil {
			return err
		}
		if err := h.hear(n); err != nil {
			return err
		}
		show(h.settled())
	}
	h.took = time.Since(h.begun)
	return nil
}

// settled counts the ticks that are over: with a lock by one machine, without by all.
func (h *hall) settled() (n int) {
	want := 1
	if h.name == "" {
		want = h.machines
	}
	for _, t := range h.ticks {
		if t.Done+t.CutOff >= want {
			n++
		}
	}
	return n
}

func (h *hall) hear(n theatre.Heard) error {
	if n.From.Dead {
		return nil
	}
	switch {
	case n.What == didTake:
		return h.take(n)
	case n.What == didOver && n.Outcome == string(jobs.Trouble):
		return exit.With(exit.Store, fmt.Errorf("machine %d: the store does not let it be known whether it may run: %s", n.From.Number, n.Text))
	case n.What == didOver && n.Token != 0:
		t := h.tick(n.Tick)
		t.over(n, time.Since(h.begun))
		switch jobs.Outcome(n.Outcome) {
		case jobs.Done:
			t.Done++
		case jobs.CutOff:
			t.CutOff++
		default:
			return fmt.Errorf("machine %d: the run of %s has %s: %s", n.From.Number, n.Tick.Format(time.TimeOnly), n.Outcome, n.Text)
		}
		return nil
	case n.What == didOver: // another machine has it
		return nil
	}
	return n.Failure()
}

// over notes the end of a run.
func (t *tickPast) over(n theatre.Heard, at time.Duration) {
	for i := range t.Runs {
		if r := &t.Runs[i]; r.machine == n.From.Number && r.token == n.Token {
			r.ended, r.outcome = at, jobs.Outcome(n.Outcome)
		}
	}
}

// take notes that a run has begun, and has it killed, stuck, or done.
func (h *hall) take(n theatre.Heard) error {
	t := h.tick(n.Tick)
	t.Runs = append(t.Runs, tickRun{machine: n.From.Number, token: n.Token, begun: time.Since(h.begun)})
	if h.name == "" {
		return n.From.Tell(orderDone)
	}
	number := slices.Index(h.ticks, t)
	switch {
	case number == h.killAt && len(t.Runs) == 1:
		h.killed, t.Runs[0].killed = time.Now(), true
		return n.From.Kill()
	case number == h.killAt && h.over == 0:
		h.over = time.Since(h.killed)
	case number == h.stickAt && len(t.Runs) == 1:
		return n.From.Tell(orderStick)
	}
	return n.From.Tell(orderDone)
}

func (h *hall) tick(at time.Time) *tickPast {
	for _, t := range h.ticks {
		if t.Tick.Equal(at) {
			return t
		}
	}
	t := &tickPast{Tick: at}
	h.ticks = append(h.ticks, t)
	return t
}
