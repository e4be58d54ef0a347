//go:build unix

// Package leader is a demo of successors: whose writes come through when leaders follow one another.
package leader

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/examples/demo/internal/store"
	"github.com/stilelock/stile/examples/demo/internal/verb"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/exit"
)

const leaderLong = `Three candidates, which are processes, stand for one leadership. The leader adds one
to a number in two files, again and again: one file takes every write, the other is
guarded by the token of the term.

The first leader is killed. The second is stopped past its lease, and the third is
deposed by hand: each right before a write, which it makes when the next leader has
written too. The file without a guard takes that write, and loses what the next
leader did; the guard refuses it. Beside it all, an observer tells who leads.

The leadership is in a new SQLite file, or in the store of --url or STILE_URL. Exits
with 0 if one led after the other and the guarded file lost nothing, and the file
without a guard did; otherwise with 1.`

const candidates = 3

// A leaderDemo is one run of the demo.
type leaderDemo struct {
	demo.Display
	ttl     time.Duration
	guarded bool // there is a guarded file, since the store has tokens
}

// New returns the verb.
func New(s *store.Store) *verb.Verb {
	d := &leaderDemo{}
	v := verb.New("leader", "Kill, stop and depose leaders, and see whose writes come through", leaderLong)
	v.Run = func(ctx context.Context, out io.Writer) error {
		if err := d.Begin(out, verb.Terminal(), v.Given); err != nil {
			return err
		}
		return d.run(ctx, s)
	}
	s.Flags(v.Flags)
	d.Flags(v.Flags, "a lease of 1s")
	return v
}

func (d *leaderDemo) run(ctx context.Context, s *store.Store) error {
	setup, err := demo.NewSetup(ctx, s)
	if err != nil {
		return err
	}
	defer setup.Close()
	if d.ttl, err = setup.Lease(d.Quick); err != nil {
		return err
	}
	d.guarded = setup.Traits.Fencing != driver.NoFencing
	d.Say("%d candidates stand for one leadership, kept in %s, with leases of %v.", candidates, setup.Address, d.ttl)
	d.Say("One leader is killed, one is stopped past its lease, and one is deposed: each right before it writes.")
	if !d.guarded {
		d.Say("%s", demo.NoTokens)
	}
	files := []string{plainFile}
	if d.guarded {
		files = append(files, guardedFile)
	}
	for _, file := range files {
		if err := os.WriteFile(setup.Path(file), []byte(demo.CountText(0)), 0o600); err != nil {
			return exit.With(exit.Failed, err)
		}
	}
	r, err := d.runSuccession(ctx, setup)
	if err != nil {
		return err
	}
	return d.finish(r)
}

// runSuccession runs the candidates.
func (d *leaderDemo) runSuccession(ctx context.Context, setup *demo.Setup) (*LeaderResult, error) {
	limit := demo.Limit + 12*d.ttl
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the terms took longer than %v", limit))
	defer cancel()
	r := &succession{
		Processes: demo.NewProcesses(setup.URL), name: "demo/leader/" + rand.Text()[:8], client: setup.Client, ttl: d.ttl,
		tokenless: !d.guarded,
		faults:    []Fault{FaultKill, FaultStop, FaultDepose}, show: d.Progress,
	}
	within, end := context.WithCancel(ctx)
	defer func() {
		if r.late != nil {
			end() // kills all: a stopped one would not end
		}
		r.Close(within, end)
	}()
	for i := range candidates {
		args := []string{candidateName, strconv.Itoa(i + 1), r.name, setup.Dir, d.ttl.String(), strconv.FormatBool(d.guarded)}
		if _, err := r.Start(within, "candidate", args...); err != nil {
			return nil, exit.With(exit.Failed, err)
		}
	}
	err := r.Gather(ctx)
	if err == nil {
		err = r.run(ctx)
	}
	d.Erase()
	result, bad := d.result(r, setup.Dir)
	if err == nil && bad != nil {
		err = exit.With(exit.Failed, bad)
	}
	known := fmt.Sprintf("%d terms began, in which %d writes were made and %d refused", len(result.Terms), result.Plain.Writes,
		result.Guarded.Refused)
	return result, demo.HalfDone(err, known, demo.ClaimsLeft(r.name, d.ttl))
}

// finish prints the result, and judges it.
func (d *leaderDemo) finish(r *LeaderResult) error {
	if err := d.Draw(r.timeline()); err != nil {
		return err
	}
	if err := d.print(r); err != nil {
		return err
	}
	return r.judge()
}

// judge returns an error if a result is wrong.
func (r *LeaderResult) judge() error {
	if r.fail != nil {
		return r.fail
	}
	last := int64(0)
	for i, t := range r.terms {
		if t.token <= last && !r.tokenless {
			return demo.Wrong("term %d has token %d after %d", i+1, t.token, last)
		}
		last = t.token
	}
	late := 0
	for _, w := range r.writes() {
		if w.late {
			late++
		}
		if w.late && w.refused == "" && !r.tokenless {
			return demo.Wrong("the guard took a late write")
		}
	}
	switch {
	case len(r.terms) <= r.struck():
		return demo.Wrong("of %d leaders that a fault hit, not all had a successor", r.struck())
	case late == 0:
		return demo.Wrong("nobody wrote late, so that this shows nothing")
	case r.Guarded.Lost > 0:
		return demo.Wrong("the guarded file lost %d of %d writes", r.Guarded.Lost, r.Guarded.Writes)
	case r.Plain.Lost == 0:
		return demo.Wrong("the file without a guard lost nothing, so that this shows nothing")
	}
	return nil
}
