package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

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

	heard  chan called
	cranks []*crank
	ticks  []*tickPast // in the order in which they were begun first
	took   time.Duration
	killed time.Time
	over   time.Duration // from the kill until the tick was begun again
}

// A crank is a machine, as the demonstration sees it.
type crank struct {
	number int
	cmd    *exec.Cmd
	in     io.WriteCloser
	dead   bool // killed, so that what it said before counts no more
	ended  bool // its stdout is closed
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
	machine int
	token   int64
}

// A called is a notice and who sent it.
type called struct {
	machineNotice
	from *crank
}

// open starts the machines, and returns when all are ready.
func (h *hall) open(ctx context.Context, url string, ttl, maxHold time.Duration) error {
	h.heard = make(chan called)
	for i := range h.machines {
		c := &crank{number: i + 1, cmd: exec.CommandContext(ctx, self(), "demo", machineName, h.name, ttl.String(), maxHold.String())}
		c.cmd.Args[0] = os.Args[0]
		c.cmd.Env = append(os.Environ(), urlVariable+"="+url)
		c.cmd.Stderr, c.cmd.SysProcAttr = os.Stderr, ofParent()
		out, err := c.cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if c.in, err = c.cmd.StdinPipe(); err != nil {
			return err
		}
		if err := c.cmd.Start(); err != nil {
			return err
		}
		h.cranks = append(h.cranks, c)
		go h.listen(ctx, c, out)
	}
	for range h.cranks {
		n, err := h.next(ctx)
		if err != nil {
			return err
		} else if n.What != didBegin {
			return n.failure()
		}
	}
	return nil
}

func (h *hall) listen(ctx context.Context, c *crank, out io.Reader) {
	for in := bufio.NewScanner(out); ; {
		n := called{from: c}
		if !in.Scan() {
			n.What = didEnd
		} else if err := json.Unmarshal(in.Bytes(), &n.machineNotice); err != nil {
			n.What, n.Text, n.Code = didFail, err.Error(), exitFailed
		}
		select {
		case h.heard <- n:
		case <-ctx.Done():
			return
		}
		if n.What == didEnd {
			return
		}
	}
}

func (h *hall) next(ctx context.Context) (called, error) {
	select {
	case n := <-h.heard:
		n.from.ended = n.from.ended || n.What == didEnd
		return n, nil
	case <-ctx.Done():
		return called{}, context.Cause(ctx)
	}
}

// run has the machines run until so many ticks are over.
func (h *hall) run(ctx context.Context, ticks int, show func(over int)) error {
	begun := time.Now()
	for _, c := range h.cranks {
		if err := c.tell(orderStart); err != nil {
			return err
		}
	}
	for h.settled() < ticks {
		n, err := h.next(ctx)
		if err != nil {
			return err
		}
		if err := h.hear(n); err != nil {
			return err
		}
		show(h.settled())
	}
	h.took = time.Since(begun)
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

func (h *hall) hear(n called) error {
	if n.from.dead {
		return nil
	}
	switch {
	case n.What == didTake:
		return h.take(n)
	case n.What == didOver && n.Outcome == jobs.Trouble:
		return &status{exitStore, fmt.Errorf("machine %d: the store does not let it be known whether it may run: %s", n.from.number, n.Text)}
	case n.What == didOver && n.Token != 0:
		t := h.tick(n.Tick)
		switch n.Outcome {
		case jobs.Done:
			t.Done++
		case jobs.CutOff:
			t.CutOff++
		default:
			return fmt.Errorf("machine %d: the run of %s has %s: %s", n.from.number, n.Tick.Format(time.TimeOnly), n.Outcome, n.Text)
		}
		return nil
	case n.What == didOver: // another machine has it
		return nil
	}
	return n.failure()
}

// take notes that a run has begun, and has it killed, stuck, or done.
func (h *hall) take(n called) error {
	t := h.tick(n.Tick)
	t.Runs = append(t.Runs, tickRun{n.from.number, n.Token})
	if h.name == "" {
		return n.from.tell(orderDone)
	}
	number := slices.Index(h.ticks, t)
	switch {
	case number == h.killAt && len(t.Runs) == 1:
		h.killed, n.from.dead = time.Now(), true
		return n.from.cmd.Process.Signal(syscall.SIGKILL)
	case number == h.killAt && h.over == 0:
		h.over = time.Since(h.killed)
	case number == h.stickAt && len(t.Runs) == 1:
		return n.from.tell(orderStick)
	}
	return n.from.tell(orderDone)
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

// close has the machines end, and waits until they have, but not for long.
func (h *hall) close(ctx context.Context, cancel context.CancelFunc) {
	late := time.AfterFunc(2*time.Second, cancel) // kills those that still run
	defer late.Stop()
	for _, c := range h.cranks {
		_ = c.in.Close()
	}
	for slices.ContainsFunc(h.cranks, func(c *crank) bool { return !c.ended }) {
		if _, err := h.next(ctx); err != nil {
			break
		}
	}
	cancel()
	for _, c := range h.cranks {
		_ = c.cmd.Wait() // it was killed, or its reports have ended
	}
}

func (c *crank) tell(line string) error {
	if _, err := io.WriteString(c.in, line+"\n"); err != nil && !errors.Is(err, syscall.EPIPE) { // its end is heard of
		return err
	}
	return nil
}

// failure is the error of a machine that failed, or ended too early.
func (n *called) failure() error {
	if n.What == didFail {
		return &status{n.Code, fmt.Errorf("machine %d: %s", n.from.number, n.Text)}
	}
	return &status{exitFailed, fmt.Errorf("machine %d has ended too early (%s)", n.from.number, n.What)}
}
