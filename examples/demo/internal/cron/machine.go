//go:build unix

package cron

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/examples/demo/internal/store"
	"github.com/stilelock/stile/examples/demo/internal/verb"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
	"github.com/stilelock/stile/jobs"
)

const machineName = "machine"

// A machine's reports, beside demo.DidBegin, demo.DidFail and demo.DidEnd.
const (
	didTake = "took" // a run has begun, and waits for its order
	didOver = "over" // a tick is over for this machine
)

// The orders for a machine.
const (
	orderStart = "start"
	orderDone  = "done"  // the run returns
	orderStick = "stick" // the run hangs until its context ends
)

// Machine is a machine of the demo, with the arguments NAME, TTL and MAXHOLD. Without a NAME it has a schedule of its own,
// which no other machine knows.
var Machine = verb.Role{Name: machineName, Count: 3, Run: beginMachine}

func beginMachine(ctx context.Context, args []string) error {
	name := args[0]
	ttl, err := time.ParseDuration(args[1])
	maxHold, bad := time.ParseDuration(args[2])
	if err := errors.Join(err, bad); err != nil {
		return exit.Usage("TTL %q, MAXHOLD %q: %w", args[1], args[2], err)
	}
	open := func() (*stile.Client, error) { return store.Locks(ctx, ttl) }
	if name == "" {
		name, open = "alone", func() (*stile.Client, error) { return stile.Open(ctx, "memory://", nil) }
	}
	c, err := open()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := &machineRun{}
	j, err := jobs.New(c, name, "@every 1s", m.work, &jobs.Options{Missed: jobs.RunAll, MaxHold: maxHold, Report: m.report})
	if err != nil {
		return err
	}
	m.orders = demo.Orders(cancel)
	if err := (&demo.Notice{What: demo.DidBegin}).Send(); err != nil {
		return err
	}
	if <-m.orders != orderStart {
		return nil
	}
	if err := j.Run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// A machineRun is the job of a machine.
type machineRun struct {
	orders <-chan string
}

// work is one run. It reports its beginning, and obeys its order. If the process is killed, it is killed here.
func (m *machineRun) work(ctx context.Context) error {
	if err := (&demo.Notice{What: didTake, Tick: jobs.Tick(ctx), Token: stile.FromContext(ctx).Ticket()}).Send(); err != nil {
		return err
	}
	switch order, ok := <-m.orders; {
	case !ok:
		return demo.ErrEnded
	case order == orderStick:
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

func (m *machineRun) report(r jobs.Result) {
	n := &demo.Notice{What: didOver, Tick: r.Tick, Token: r.Ticket, Outcome: string(r.Outcome)}
	if r.Err != nil {
		n.Text = phrase.OneLine(r.Err.Error())
	}
	_ = n.Send() // if nobody hears, stdin has ended too
}
