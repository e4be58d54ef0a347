//go:build unix

package payment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/demo"
)

// A delivery brings the callbacks of the order processes to idle payment processes. The callbacks of one order come
// directly one after the other. The first payment process that is about to charge a certain order is stopped there, until
// another process has charged that order or, if the lock is in the transaction so that nobody can, for a lease and a half.
// The first one that is about to charge the next order is killed there, and another process takes its place and its
// callback.
//
// A payment process moves like this:
//
//	starting ──ready──> idle ──callback──> busy ──kill──> killed
//	                      ^───result─────── │ ^──stop──> stopped
//	                                        └───resume─────┘
//
// A transition that is not in the drawing is an error. Only move changes the state.
type delivery struct {
	*demo.Processes
	column   *column
	client   *stile.Client // of the demo itself
	ttl      time.Duration
	clerks   []*clerk
	orderers int      // order processes that still call back
	waiting  []int    // callbacks that nobody has got yet, in order
	show     func()   // a callback was handled
	args     []string // of a payment process

	pause  pause
	paused *clerk // the stopped process
	late   <-chan time.Time
	since  time.Time
	begun  time.Time
}

// A pause is the progress of the delivery's one stop.
type pause int

const (
	pauseAhead pause = iota // nobody was about to charge the order yet
	pauseNow
	pauseOver
)

// orderRole is the name of an order process.
const orderRole = "order process"

// A clerk is a payment process, as the demonstration sees it.
type clerk struct {
	*demo.Process
	place int // from 1 on; a process that replaces a killed one has the same place
	state clerkState
	order int // the order that it is busy with
	since time.Duration
	late  bool // it was stopped, and is writing now
}

type clerkState string

const (
	clerkStarting clerkState = "starting"
	clerkIdle     clerkState = "idle"
	clerkBusy     clerkState = "busy"
	clerkStopped  clerkState = "stopped"
	clerkKilled   clerkState = "killed"
)

// move changes the state from one to another.
func (c *clerk) move(from, to clerkState) error {
	if c.state != from {
		return fmt.Errorf("payment process %d is %s, and not %s", c.place, c.state, from)
	}
	c.state = to
	return nil
}

// run delivers all callbacks. When it returns, no process is left.
func (d *delivery) run(ctx context.Context, payers, orderers int, url, data, place string) error {
	ctx, cancel := context.WithCancel(ctx)
	d.Processes, d.orderers = demo.NewProcesses(url), orderers
	if data != "" {
		d.Env = []string{demo.DataVariable + "=" + data}
	}
	defer func() {
		if d.pause == pauseNow {
			cancel() // kills all: a stopped one would not end
		}
		d.Close(ctx, cancel)
	}()
	d.args = []string{payerName, place, d.column.names, d.ttl.String(), string(d.column.way)}
	for i := range payers {
		if err := d.employ(ctx, i+1); err != nil {
			return err
		}
	}
	for range payers { // so that all begin at once
		if err := d.step(ctx); err != nil {
			return err
		}
	}
	d.begun = time.Now()
	for range orderers {
		if _, err := d.Start(ctx, orderRole, ordererName, strconv.Itoa(d.column.orders)); err != nil {
			return err
		}
	}
	for !d.over() {
		if err := d.step(ctx); err != nil {
			return err
		}
		if err := d.hand(); err != nil {
			return err
		}
	}
	d.column.took = time.Since(d.begun)
	return nil
}

// employ starts a payment process, maybe in the place of a killed one.
func (d *delivery) employ(ctx context.Context, place int) error {
	a, err := d.Start(ctx, "payment process", d.args...)
	if err != nil {
		return err
	}
	c := &clerk{Process: a, place: place, state: clerkStarting}
	if place > len(d.clerks) {
		d.clerks = append(d.clerks, c)
	} else {
		d.clerks[place-1] = c
	}
	return nil
}

// over reports whether every callback was handled.
func (d *delivery) over() bool {
	for _, c := range d.clerks {
		if c.state != clerkIdle {
			return false
		}
	}
	return d.orderers == 0 && len(d.waiting) == 0
}

// step takes one notice, or resumes a process that has been stopped for too long.
func (d *delivery) step(ctx context.Context) error {
	select {
	case h := <-d.Heard:
		return d.hear(ctx, h)
	case <-d.late: // nobody else got the lock
		return d.resume()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *delivery) hear(ctx context.Context, h demo.Heard) error {
	h.From.Ended = h.What == demo.DidEnd
	order := h.From.Role == orderRole
	switch {
	case h.From.Dead:
		return nil
	case order && h.What == didCall:
		d.wait(h.Order)
		d.column.callbacks++
		return nil
	case order && h.What == demo.DidEnd:
		d.orderers--
		return nil
	case order || h.What == demo.DidFail || h.What == demo.DidEnd:
		return h.Failure()
	}
	c := d.clerks[slices.IndexFunc(d.clerks, func(c *clerk) bool { return c.Process == h.From })]
	switch h.What {
	case demo.DidBegin:
		return c.move(clerkStarting, clerkIdle)
	case demo.DidAsk:
		return d.ask(ctx, c)
	}
	return d.result(c, h)
}

// wait puts a callback beside the other one of the same order, so that two processes get them at the same time.
func (d *delivery) wait(order int) {
	i, _ := slices.BinarySearch(d.waiting, order)
	d.waiting = slices.Insert(d.waiting, i, order)
}

// ask lets a process write, or stops or kills it.
func (d *delivery) ask(ctx context.Context, c *clerk) error {
	if d.column.killed == 0 && c.order == d.column.killAt {
		return d.kill(ctx, c)
	}
	if d.pause != pauseAhead || c.order != d.column.stopAt {
		return c.Tell("go")
	}
	if err := c.move(clerkBusy, clerkStopped); err != nil {
		return err
	}
	// It waits for an order before it writes, so the time until it is stopped does not matter.
	if err := c.Halt(ctx, d.lock(c.order)); err != nil {
		return err
	}
	d.pause, d.paused, d.since = pauseNow, c, time.Now()
	d.note(c, demo.DidAsk)
	d.late = time.After(3*d.ttl + demo.Patience/2) // sooner than the waiters for the lock give up
	if d.column.way == payInTx {
		d.late = time.After(d.ttl + d.ttl/2)
	}
	return nil
}

// kill ends a process, and gives its callback to another one.
func (d *delivery) kill(ctx context.Context, c *clerk) error {
	if err := errors.Join(c.move(clerkBusy, clerkKilled), c.Kill()); err != nil {
		return err
	}
	d.column.killed++
	d.note(c, string(clerkKilled))
	d.wait(c.order)
	return d.employ(ctx, c.place)
}

// lock returns the lock of an order, by which others test the store; nil without one.
func (d *delivery) lock(order int) *stile.Lock {
	if d.column.names == "" || d.column.way == payInTx {
		return nil
	}
	return d.client.Mutex(orderLock(d.column.names, order))
}

// result notes the result of a callback.
func (d *delivery) result(c *clerk, h demo.Heard) error {
	if err := c.move(clerkBusy, clerkIdle); err != nil {
		return err
	}
	what := h.What
	if c.late && what == didPay {
		what = didLate
	}
	c.late = false
	d.note(c, what)
	switch h.What {
	case demo.DidLose:
		d.wait(h.Order)
	case demo.DidHalt:
		d.column.refused = append(d.column.refused, h.Text)
	}
	if h.Lost {
		d.column.lost = append(d.column.lost, h.Order)
	}
	if h.What == didPay {
		d.column.told++
	}
	if h.What != demo.DidLose {
		d.show()
	}
	if d.pause == pauseNow && h.What == didPay && h.Order == d.column.stopAt {
		return d.resume()
	}
	return nil
}

// note records what a process was busy with until now.
func (d *delivery) note(c *clerk, what string) {
	now := time.Since(d.begun)
	d.column.past = append(d.column.past, busy{c.place, c.since, now, what})
	c.since = now
}

// resume lets the stopped process continue with its write.
func (d *delivery) resume() error {
	c := d.paused
	if err := c.move(clerkStopped, clerkBusy); err != nil {
		return err
	}
	d.pause, d.paused, d.late, c.late = pauseOver, nil, nil, true
	d.note(c, string(clerkStopped))
	d.column.paused = time.Since(d.since)
	d.column.waited = slices.ContainsFunc(d.clerks,
		func(other *clerk) bool { return other.state == clerkBusy && other != c && other.order == c.order })
	return errors.Join(c.Tell("go"), c.Cmd.Process.Signal(syscall.SIGCONT))
}

// hand gives callbacks to idle processes, once all callbacks have come.
func (d *delivery) hand() error {
	if d.orderers > 0 {
		return nil
	}
	for _, c := range d.clerks {
		if c.state != clerkIdle || len(d.waiting) == 0 {
			continue
		}
		c.order, d.waiting, c.since = d.waiting[0], d.waiting[1:], time.Since(d.begun)
		if err := errors.Join(c.move(clerkIdle, clerkBusy), c.Tell(strconv.Itoa(c.order))); err != nil {
			return err
		}
	}
	return nil
}
