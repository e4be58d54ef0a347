//go:build unix

// Package payment is a demo of orders with two callbacks each, and of a guard beside the lock.
package payment

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/examples/demo/internal/store"
	"github.com/stilelock/stile/examples/demo/internal/verb"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/draw"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/opening"
	"github.com/stilelock/stile/internal/phrase"
)

const paymentLong = `Order processes call back for the same orders, and payment processes take the
callbacks: each reads whether the order is paid, and if not, charges it. This is
done without a lock, with a lock for each order, and with the lock and a guard.

Each time one payment process is stopped between its read and its write until
another has charged the order, which with a lock is when the lease has run out.
Then it goes on and writes late. Only the guard refuses that. Another process is
killed there, and a new one takes its callback.

The orders are in a new SQLite file, or in the PostgreSQL or MySQL of --data. There
they are also charged with the lock in the transaction itself: no lease runs out,
and while the holder is stopped, the others wait. The locks are in another file,
with --data beside the orders, or in the store of --url or STILE_URL. A store
without tokens, such as memcached, shows no guard. Exits with 0 if each order was
charged exactly once with lock and guard, and in the transaction, and not without;
otherwise with 1.`

const (
	orderProcesses = 2 // each calls back for every order

	quickOrders = 20

	tallyFor = 10 * time.Second // at most, to count what was charged
)

// A payment is one run of the demo.
type payment struct {
	demo.Display
	orders, processes int
	ttl               time.Duration
	data              string // the URL of the database with the orders; empty for a file
	guarded           bool   // there is a column with a guard, since the store has tokens
}

// A column is one way in which the payments are made, and its result.
type column struct {
	title  string
	names  string // of the locks, without the order; empty without a lock
	way    payWay
	orders int
	stopAt int // the order at whose write a process is stopped
	killAt int // and at whose write one is killed; 0 for none

	tally
	callbacks int
	lost      []int    // the orders during whose payment a lease was lost
	refused   []string // the guard's refusals
	told      int      // the charges that were reported
	killed    int      // processes
	waited    bool     // somebody waited for the stopped process's order until that process continued
	paused    time.Duration
	took      time.Duration
	past      []busy
}

// A busy is a span of a payment process's time, with its occupation.
type busy struct {
	clerk    int
	from, to time.Duration
	what     string // a notice's word, or clerkStopped
}

// New returns the verb.
func New(s *store.Store) *verb.Verb {
	p := &payment{}
	v := verb.New("payment", "Charge orders once though they are paid for twice, with a lock and a guard", paymentLong)
	v.Run = func(ctx context.Context, out io.Writer) error {
		if err := p.Begin(out, verb.Terminal(), v.Given); err != nil {
			return err
		}
		if p.Quick && !v.Given("orders") {
			p.orders = quickOrders
		}
		if err := p.check(v.Given("data")); err != nil {
			return err
		}
		return p.run(ctx, s)
	}
	s.Flags(v.Flags)
	p.Flags(v.Flags, "20 orders, and a lease of 1s")
	v.Flags.StringVar(&p.data, "data", "",
		"the `URL` of the PostgreSQL or MySQL that the orders are in, such as postgres://localhost/shop")
	v.Flags.IntVar(&p.processes, "processes", 4, "how many take callbacks")
	v.Flags.IntVar(&p.orders, "orders", 100, "how many there are")
	return v
}

func (p *payment) check(dataGiven bool) error {
	switch {
	case p.processes < 2 || p.processes > 64:
		return exit.Usage("--processes %d: it must be from 2 to 64", p.processes)
	case p.orders < 1 || p.orders > 10000:
		return exit.Usage("--orders %d: it must be from 1 to 10000", p.orders)
	case p.Quick && p.orders > 100:
		return exit.Usage("--orders %d: with --quick it must be from 1 to 100", p.orders)
	case p.Quick && p.processes > 8:
		return exit.Usage("--processes %d: with --quick it must be from 2 to 8", p.processes)
	case dataGiven && p.data == "":
		return exit.Usage("--data is empty: it is the URL of the database with the orders; leave it out for an SQLite file")
	case p.data != "":
		return p.checkData()
	}
	return nil
}

// checkData checks --data.
func (p *payment) checkData() error {
	a, err := driver.ParseAddress(p.data)
	if err != nil {
		return exit.Usage("--data: %w", err)
	}
	if opening.Hide(a, p.data) {
		store.Warn("data")
	}
	data, err := OpenLedger(p.data)
	if err != nil {
		return err
	}
	return data.DB.Close()
}

func (p *payment) run(ctx context.Context, s *store.Store) error {
	s.Beside = p.data // the locks are in the same database as the data
	setup, err := demo.NewSetup(ctx, s)
	if err != nil {
		return err
	}
	defer setup.Close()
	if p.ttl, err = setup.Lease(p.Quick); err != nil {
		return err
	}
	p.Say("%d orders, called back by %d processes, %d times in all. %d processes charge them.", p.orders, orderProcesses,
		orderProcesses*p.orders, p.processes)
	p.Say("At order %d one of them is stopped right before it writes%s. The locks are kept in %s, with leases of %v.",
		p.stopAt(), p.also(), setup.Address, p.ttl)
	columns := p.columns(setup)
	if !p.guarded {
		p.Say("%s", demo.NoTokens)
	}
	if err := p.fillAll(ctx, columns, setup); err != nil {
		return err
	}
	if err := p.Draw(p.timeline(columns[1:])); err != nil {
		return err
	}
	if err := p.print(columns); err != nil {
		return err
	}
	return judgePayments(columns)
}

func (p *payment) stopAt() int { return (p.orders + 1) / 2 }

// killAt returns the order after stopAt, or 0.
func (p *payment) killAt() int {
	if p.stopAt() < p.orders {
		return p.stopAt() + 1
	}
	return 0
}

func (p *payment) also() string {
	if p.killAt() == 0 {
		return ""
	}
	return fmt.Sprintf(", at order %d one is killed there", p.killAt())
}

// columns returns the ways in which the payments are made.
func (p *payment) columns(setup *demo.Setup) []*column {
	names := "demo/payment/" + rand.Text()[:8]
	p.guarded = setup.Traits.Fencing != driver.NoFencing
	columns := []*column{
		{title: "without lock", way: payPlain},
		{title: "with lock", way: payPlain, names: names + "/plain"},
	}
	if p.guarded {
		columns = append(columns, &column{title: "with lock and guard", way: payGuarded, names: names + "/guarded"})
	}
	if p.data != "" {
		columns = append(columns, &column{title: "lock in transaction", way: payInTx, names: names + "/tx"})
	}
	for _, c := range columns {
		c.orders, c.stopAt, c.killAt = p.orders, p.stopAt(), p.killAt()
	}
	return columns
}

// fillAll makes the payments of all columns: first the payments without a lock, then the others at the same time, since each
// waits for the ends of its own leases.
func (p *payment) fillAll(ctx context.Context, columns []*column, setup *demo.Setup) error {
	defer p.Erase()
	id := strings.ToLower(rand.Text()[:8])
	place := func(i int) string {
		if p.data != "" {
			return fmt.Sprintf("stile_demo_%s_%d_", id, i)
		}
		return setup.Path(fmt.Sprintf("shop%d.db", i))
	}
	if err := p.fill(ctx, columns[0], setup, place(0), func() { p.Progress("%s", columns[0].title) }); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	handled, failed := make(chan int), make(chan error)
	for i, c := range columns[1:] {
		go func() { failed <- p.fill(ctx, c, setup, place(i+1), func() { handled <- 1 }) }()
	}
	var first error
	for done, left := 0, len(columns)-1; left > 0; {
		select {
		case n := <-handled:
			done += n
			p.Progress("%d of %d callbacks", done, orderProcesses*p.orders*(len(columns)-1))
		case err := <-failed:
			left--
			if first == nil && err != nil {
				first = err
				cancel() // the others end too, and their errors add nothing
			}
		}
	}
	return first
}

// fill makes the payments of one column.
func (p *payment) fill(ctx context.Context, c *column, setup *demo.Setup, place string, show func()) error {
	limit := demo.Limit + 4*p.ttl
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the payments took longer than %v", limit))
	defer cancel()
	data, err := openShopDB(p.data, place, false)
	if err != nil {
		return failedUnless(err)
	}
	defer data.close()
	if p.data != "" {
		defer data.clear()
	}
	if err := data.stock(ctx, c.orders); err != nil {
		return failedUnless(err)
	}
	d := &delivery{column: c, client: setup.Client, ttl: p.ttl, show: show}
	failed := d.run(ctx, p.processes, orderProcesses, setup.URL, p.data, place)
	ended, cancelTally := context.WithTimeout(context.WithoutCancel(ctx), tallyFor)
	defer cancelTally()
	if c.tally, err = data.tally(ended); err != nil {
		return p.uncounted(c, failed, failedUnless(err))
	}
	if cause := context.Cause(ctx); cause != nil {
		failed = cause
	}
	return p.halfDone(c, failed)
}

// halfDone adds the known and the unknown facts about the payments to an error.
func (p *payment) halfDone(c *column, err error) error {
	if err == nil {
		return nil
	}
	unknown := ""
	if c.names != "" && c.way != payInTx {
		unknown = demo.ClaimsLeft(c.names, p.ttl)
	}
	known := fmt.Sprintf("of %d orders %d were charged once, %d more often, and %d not", c.orders, c.once, len(c.twice),
		len(c.open))
	return demo.HalfDone(fmt.Errorf("%s: %w", c.title, err), known, unknown)
}

// uncounted is demo.HalfDone for data that cannot be counted. Only the processes' reports are known.
func (p *payment) uncounted(c *column, failed, err error) error {
	if failed == nil {
		failed = err
	}
	known := fmt.Sprintf("of %d orders %s reported", c.orders, demo.Were(c.told, "charge"))
	unknown := "what else was charged"
	if c.names != "" && c.way != payInTx {
		unknown += ", and " + demo.ClaimsLeft(c.names, p.ttl)
	}
	return demo.HalfDone(fmt.Errorf("%s: %w", c.title, failed), known, unknown)
}

// failedUnless makes an error of the demo's own file one of the demo. An error of a database already has the exit status.
func failedUnless(err error) error {
	if _, told := errors.AsType[*exit.Status](err); told {
		return err
	}
	return exit.With(exit.Failed, err)
}

// judgePayments returns an error if a result is wrong: without a lock, with one, and with lock and guard if there is a
// guard.
func judgePayments(columns []*column) error {
	for _, c := range columns {
		if len(c.open) > 0 {
			return demo.Wrong("%s, %d orders were not charged, number %d first", c.title, len(c.open), c.open[0])
		}
		if c.killAt > 0 && c.killed == 0 {
			return demo.Wrong("%s, nobody was killed", c.title)
		}
	}
	for _, c := range columns[2:] {
		judge := judgeGuard
		if c.way == payInTx {
			judge = judgeTx
		}
		if err := judge(c); err != nil {
			return err
		}
	}
	free, locked := columns[0], columns[1]
	for _, order := range locked.twice {
		if !slices.Contains(locked.lost, order) {
			return demo.Wrong("with the lock, order %d was charged more than once, although no lease of it was lost", order)
		}
	}
	switch {
	case len(locked.twice) == 0:
		return demo.Wrong("the lock without a guard charged every order once: nobody got it while its holder was stopped for %v",
			phrase.Rounded(locked.paused))
	case len(free.twice) == 0:
		return demo.Wrong("without a lock every order was charged once, so that this shows nothing")
	}
	return nil
}

func judgeTx(c *column) error {
	switch {
	case len(c.twice) > 0 || c.taken != c.price:
		return demo.Wrong("with the lock in the transaction, %d orders were charged more than once, and %d was taken for %d",
			len(c.twice), c.taken, c.price)
	case !c.waited:
		return demo.Wrong("with the lock in the transaction, nobody waited for order %d while its holder was stopped for %v",
			c.stopAt, phrase.Rounded(c.paused))
	}
	return nil
}

func judgeGuard(c *column) error {
	switch {
	case len(c.twice) > 0 || c.taken != c.price:
		return demo.Wrong("with lock and guard, %d orders were charged more than once, and %d was taken for %d", len(c.twice),
			c.taken, c.price)
	case len(c.refused) == 0:
		return demo.Wrong("the guard refused nothing: nobody got the lock while its holder was stopped for %v",
			phrase.Rounded(c.paused))
	}
	return nil
}

// timeline returns the picture: which process took callbacks when, under the lock, in each of the columns, and the late
// write of the stopped one.
func (p *payment) timeline(columns []*column) *draw.Timeline {
	t := &draw.Timeline{
		Title: "Who took callbacks when, and who wrote late", Unit: "s",
		Desc: fmt.Sprintf("The work of %d payment processes under locks. One is stopped past its lease right before it writes, "+
			"and one is killed "+
			"there: without a guard the late write charges the order again, with one it is refused, and a lock in the transaction "+
			"keeps others waiting.",
			p.processes),
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
	case string(clerkKilled):
		lane.Points = append(lane.Points, draw.Point{At: b.to.Seconds(), Kind: draw.Failed, Text: "killed"})
	case demo.DidHalt:
		lane.Points = append(lane.Points, draw.Point{At: b.to.Seconds(), Kind: draw.Failed, Text: "refused"})
	case didLate:
		lane.Points = append(lane.Points, draw.Point{At: b.to.Seconds(), Kind: draw.Failed, Text: "charged again"})
	}
	lane.Spans = append(lane.Spans, span)
}

// didLate is a charge by the stopped process after another one's.
const didLate = "late"
