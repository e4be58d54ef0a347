package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile/cmd/stile/internal/guard"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/draw"
)

const paymentLong = `Order processes call back for the same orders, and payment processes take the
callbacks: each reads whether the order is paid, and if not, charges it. This is
done without a lock, with a lock for each order, and with the lock and a guard.

Each time one payment process is stopped between its read and its write until
another has charged the order, which with a lock is when the lease has run out.
Then it goes on and writes late. Only the guard refuses that.

The orders are in a new SQLite file. The locks are in another, or in the store of
--url or STILE_URL. A store without tokens, such as memcached, shows no guard. Exits
with 0 if each order was charged exactly once with lock and guard, and not without;
otherwise with 1.`

const (
	orderProcesses = 2 // each calls back for every order

	quickOrders = 20

	paymentPatience = 6 * time.Second // with the store, beyond three leases: in Consul a session can last for two
)

// A payment is one stile demo payment.
type payment struct {
	showing
	orders, processes int
	ttl               time.Duration
	guarded           bool // there is a column with a guard, since the store has tokens
}

// A column is one way in which the payments are made, and what came of it.
type column struct {
	title   string
	names   string // of the locks, without the order; empty without a lock
	guarded bool
	orders  int
	stopAt  int // the order at whose write a process is stopped

	tally
	callbacks int
	lost      []int    // the orders during whose payment a lease was lost
	refused   []string // what the guard said
	paused    time.Duration
	took      time.Duration
	past      []busy
}

// A busy is what a payment process was busy with, from one time to another.
type busy struct {
	clerk    int
	from, to time.Duration
	what     string // of a notice, or clerkStopped
}

func newPayment(s *store) *cobra.Command {
	p := &payment{}
	cmd := &cobra.Command{
		Use: "payment", Short: "Charge orders once though they are paid for twice, with a lock and a guard", Long: paymentLong,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.begin(cmd, args); err != nil {
				return err
			}
			if p.quick && !cmd.Flags().Changed("orders") {
				p.orders = quickOrders
			}
			if err := p.check(); err != nil {
				return err
			}
			return p.run(cmd.Context(), s)
		},
	}
	p.flags(cmd, "20 orders, and a lease of 1s")
	cmd.Flags().IntVar(&p.processes, "processes", 4, "how many take callbacks")
	cmd.Flags().IntVar(&p.orders, "orders", 100, "how many there are")
	return cmd
}

func (p *payment) check() error {
	switch {
	case p.processes < 2 || p.processes > 64:
		return usage("--processes %d: it must be from 2 to 64", p.processes)
	case p.orders < 1 || p.orders > 10000:
		return usage("--orders %d: it must be from 1 to 10000", p.orders)
	case p.quick && p.orders > 100:
		return usage("--orders %d: with --quick it must be from 1 to 100", p.orders)
	case p.quick && p.processes > 8:
		return usage("--processes %d: with --quick it must be from 2 to 8", p.processes)
	case !hasTills():
		return usage("stile demo payment keeps its orders in SQLite, and this stile was built without (build tag no_sqlite)")
	}
	return nil
}

func (p *payment) run(ctx context.Context, s *store) error {
	ctx, stop := untilSignal(ctx, listen(guard.Ending))
	defer stop()
	stage, err := newStage(ctx, s)
	if err != nil {
		return err
	}
	defer stage.close()
	if p.ttl, err = stage.lease(p.quick); err != nil {
		return err
	}
	p.say("%d orders, called back by %d processes, %d times in all. %d processes charge them.", p.orders, orderProcesses,
		orderProcesses*p.orders, p.processes)
	p.say("At order %d one of them is stopped right before it writes. The locks are kept in %s, with leases of %v.",
		p.stopAt(), stage.address, p.ttl)
	names := "demo/payment/" + rand.Text()[:8]
	columns := []*column{
		{title: "without lock"},
		{title: "with lock", names: names + "/plain"},
	}
	if p.guarded = stage.traits.Fencing != driver.NoFencing; p.guarded {
		columns = append(columns, &column{title: "with lock and guard", names: names + "/guarded", guarded: true})
	} else {
		p.say("%s", noTokens)
	}
	for i, c := range columns {
		c.orders, c.stopAt = p.orders, p.stopAt()
		if err := p.fill(ctx, c, stage, stage.path(fmt.Sprintf("shop%d.db", i))); err != nil {
			return err
		}
	}
	if err := p.draw(p.timeline(columns[1:])); err != nil {
		return err
	}
	if err := p.print(columns); err != nil {
		return err
	}
	return judgePayments(columns)
}

func (p *payment) stopAt() int { return (p.orders + 1) / 2 }

// fill makes the payments of one column.
func (p *payment) fill(ctx context.Context, c *column, stage *stage, file string) error {
	limit := demoLimit + 4*p.ttl
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the payments took longer than %v", limit))
	defer cancel()
	data, err := openTill(file, false)
	if err != nil {
		return &status{exitFailed, err}
	}
	defer data.close()
	if err := data.stock(ctx, c.orders); err != nil {
		return &status{exitFailed, err}
	}
	d := &delivery{column: c, client: stage.client, ttl: p.ttl, show: func(done int) {
		p.progress("%s: %d of %d callbacks", c.title, done, orderProcesses*c.orders)
	}}
	failed := d.run(ctx, p.processes, orderProcesses, stage.url, file)
	p.erase()
	if c.tally, err = data.tally(context.WithoutCancel(ctx)); err != nil {
		return &status{exitFailed, errors.Join(failed, err)}
	}
	if cause := context.Cause(ctx); cause != nil {
		failed = cause
	}
	return p.halfDone(c, failed)
}

// halfDone adds to an error what is known of the payments, and what is not.
func (p *payment) halfDone(c *column, err error) error {
	if err == nil {
		return nil
	}
	unknown := ""
	if c.names != "" {
		unknown = claimsLeft(c.names, p.ttl)
	}
	known := fmt.Sprintf("of %d orders %d were charged once, %d more often, and %d not", c.orders, c.once, len(c.twice), len(c.open))
	return halfDone(fmt.Errorf("%s: %w", c.title, err), known, unknown)
}

// judgePayments returns what should not have happened: without a lock, with one, and with lock and guard if there is a guard.
func judgePayments(columns []*column) error {
	for _, c := range columns {
		if len(c.open) > 0 {
			return wrong("%s, %d orders were not charged, number %d first", c.title, len(c.open), c.open[0])
		}
	}
	for _, c := range columns[2:] {
		if err := judgeGuard(c); err != nil {
			return err
		}
	}
	free, locked := columns[0], columns[1]
	for _, order := range locked.twice {
		if !slices.Contains(locked.lost, order) {
			return wrong("with the lock, order %d was charged more than once, although no lease of it was lost", order)
		}
	}
	switch {
	case len(locked.twice) == 0:
		return wrong("the lock without a guard charged every order once: nobody got it while its holder was stopped for %v",
			rounded(locked.paused))
	case len(free.twice) == 0:
		return wrong("without a lock every order was charged once, so that this shows nothing")
	}
	return nil
}

func judgeGuard(c *column) error {
	switch {
	case len(c.twice) > 0 || c.taken != c.price:
		return wrong("with lock and guard, %d orders were charged more than once, and %d was taken for %d", len(c.twice), c.taken, c.price)
	case len(c.refused) == 0:
		return wrong("the guard refused nothing: nobody got the lock while its holder was stopped for %v", rounded(c.paused))
	}
	return nil
}

// timeline is which process took callbacks when, under the lock, in each of the columns: the one that was stopped wrote late.
func (p *payment) timeline(columns []*column) *draw.Timeline {
	t := &draw.Timeline{
		Title: "Who took callbacks when, and who wrote late", Unit: "s",
		Desc: fmt.Sprintf("The work of %d payment processes, with a lock and then with lock and guard. One is stopped past its lease right "+
			"before it writes: without a guard it charges the order again, and with one its write is refused.", p.processes),
	}
	for _, c := range columns {
		t.To = max(t.To, c.took.Seconds())
		for number := range p.processes {
			lane := draw.Lane{Name: fmt.Sprintf("%s: process %d", c.title, number+1)}
			for _, b := range c.past {
				if b.clerk == number+1 {
					b.mark(&lane)
				}
			}
			t.Lanes = append(t.Lanes, lane)
		}
	}
	return t
}

func (b *busy) mark(lane *draw.Lane) {
	span := draw.Span{From: b.from.Seconds(), To: b.to.Seconds(), Kind: draw.Held}
	switch b.what {
	case string(clerkStopped):
		span.Kind, span.Text = draw.Paused, "stopped"
	case didHalt:
		lane.Points = append(lane.Points, draw.Point{At: b.to.Seconds(), Kind: draw.Failed, Text: "refused"})
	case didLate:
		lane.Points = append(lane.Points, draw.Point{At: b.to.Seconds(), Kind: draw.Failed, Text: "charged again"})
	}
	lane.Spans = append(lane.Spans, span)
}

// didLate stands for a charge of the process that was stopped, after another's.
const didLate = "late"
