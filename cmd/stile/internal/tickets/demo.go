// Package tickets is stile demo tickets, which shows the purpose of a lock.
//
// Of the other packages of the command it may import store and tty.
package tickets

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/ending"
	"github.com/stilelock/stile/internal/exit"
)

const demoLong = `Several processes sell tickets from one file. Each reads how many are left, thinks
for a moment, writes one less, and notes the sale in the ledger: first without a
lock, so that tickets are sold twice, then with one.

Other processes browse meanwhile how many are left and how many are sold: with the
lock as its readers, so that no look sees a half-made sale.

With --chaos one seller is killed while it holds, and one is stopped past its lease
right before it writes, which it does when others have sold. Then a third part has
a guard too, which refuses the late write; the lock alone sells tickets again.

The locks are kept in a new SQLite file, or in the store of --url or STILE_URL.
Exits with 0 if with the lock each ticket was sold once, and without it some were
sold twice; otherwise with 1. With --chaos that is so with lock and guard, and not
without the guard.`

// A ticketsDemo is one stile demo tickets.
type ticketsDemo struct {
	demo.Display
	processes, tickets int
	browsers           int
	chaos              bool
	ttl                time.Duration
	tokenless          bool // the store's tokens need not rise
}

const (
	// Without a lock some tickets are almost surely sold twice. If not, the demo tries again.
	demoTries = 5

	quickTickets = 20
)

// New returns the command.
func New(s *store.Store) *cobra.Command {
	d := &ticketsDemo{}
	tickets := &cobra.Command{
		Use: "tickets", Short: "Sell tickets from many processes, without a lock and with one", Long: demoLong,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usage("stile demo %s takes flags only", cmd.Name())
			}
			if err := d.Begin(cmd.OutOrStdout(), tty.Is(os.Stdout), cmd.Flags().Changed); err != nil {
				return err
			}
			if d.Quick && !cmd.Flags().Changed("tickets") {
				d.tickets = quickTickets
			}
			if err := d.check(); err != nil {
				return err
			}
			return d.run(cmd.Context(), s)
		},
	}
	d.Flags(tickets.Flags(), "20 tickets, and with --chaos a lease of 1s")
	tickets.Flags().IntVar(&d.processes, "processes", 8, "how many sell")
	tickets.Flags().IntVar(&d.tickets, "tickets", 100, "how many there are")
	tickets.Flags().IntVar(&d.browsers, "browsers", 2, "how many look meanwhile what is left")
	tickets.Flags().BoolVar(&d.chaos, "chaos", false,
		"kill one seller and stop one past its lease, and sell with lock and guard too")
	return tickets
}

// check checks the numbers of the command line.
func (d *ticketsDemo) check() error {
	switch {
	case d.processes < 2 || d.processes > 64:
		return exit.Usage("--processes %d: it must be from 2 to 64", d.processes)
	case d.tickets < 1 || d.tickets > 10000:
		return exit.Usage("--tickets %d: it must be from 1 to 10000", d.tickets)
	case d.browsers < 0 || d.browsers > 64:
		return exit.Usage("--browsers %d: it must be from 0 to 64", d.browsers)
	case d.Quick && d.tickets > 100:
		return exit.Usage("--tickets %d: with --quick it must be from 1 to 100", d.tickets)
	case d.Quick && d.processes > 8:
		return exit.Usage("--processes %d: with --quick it must be from 2 to 8", d.processes)
	case d.Quick && d.browsers > 8:
		return exit.Usage("--browsers %d: with --quick it must be from 0 to 8", d.browsers)
	}
	return d.checkChaos()
}

func (d *ticketsDemo) run(ctx context.Context, s *store.Store) error {
	ctx, stop := ending.Until(ctx, ending.Listen(ending.Signals))
	defer stop()
	setup, err := demo.NewSetup(ctx, &locks{s})
	if err != nil {
		return err
	}
	defer setup.Close()
	if d.ttl, err = setup.Lease(d.Quick && d.chaos); err != nil {
		return err
	}
	if !setup.Traits.Shared && d.browsers > 0 {
		d.browsers = 0
		d.Say("This store has no readers, so nobody browses.")
	}
	d.tokenless = setup.Traits.Fencing == driver.NoFencing
	if d.chaos {
		return d.wreak(ctx, setup)
	}
	d.Say("%d processes sell %d tickets from one file.\n", d.processes, d.tickets)
	free, err := d.without(ctx, setup)
	if err != nil {
		return err
	}
	d.Say("\nWith a lock, kept in %s:", setup.Address)
	name := "demo/tickets/" + rand.Text()[:8]
	box, err := d.sell(ctx, setup.Path("locked"), setup.URL, name)
	if err != nil {
		return d.halfDone(box, "with the lock", name, err)
	}
	if err := d.Draw(ticketsTimeline(free, box)); err != nil {
		return err
	}
	if d.JSON {
		if err := answer.JSON(d.Out, d.view(free, box), "  "); err != nil {
			return err
		}
	}
	if err := d.judge(box); err != nil {
		return err
	}
	if twice, _, _ := free.twice(); twice == 0 {
		return demo.Wrong("without a lock no ticket was sold twice in %d tries, so that this shows nothing; more --processes "+
			"would help", demoTries)
	}
	return nil
}

// without sells without a lock, until tickets are sold twice, and returns the last sale.
func (d *ticketsDemo) without(ctx context.Context, setup *demo.Setup) (box *box, err error) {
	d.Say("Without a lock:")
	for try := range demoTries {
		if try > 0 {
			d.Say("  By luck no ticket was sold twice. Once more:")
		}
		if box, err = d.sell(ctx, setup.Path("free"+strconv.Itoa(try)), setup.URL, ""); err != nil {
			return nil, err
		}
		if twice, worst, times := box.twice(); twice > 0 {
			d.Say("  %d tickets were sold %d times in %v: %d of them more than once, number %d to %d customers.",
				d.tickets, len(box.sales), box.took.Round(time.Millisecond), twice, worst, times)
			break
		}
	}
	if d.browsers > 0 {
		d.Say("  %d processes browsed meanwhile. In %d of %d looks, what was sold and what was left were not %d together.",
			d.browsers, box.seen.torn, box.seen.looks, d.tickets)
	}
	return box, nil
}

// halfDone adds to an error the known and the unknown facts of a sale.
func (d *ticketsDemo) halfDone(b *box, how, name string, err error) error {
	if b == nil || b.read() != nil {
		return err
	}
	unknown := ""
	if name != "" {
		unknown = demo.ClaimsLeft(name, d.ttl)
	}
	twice, _, _ := b.twice()
	return demo.HalfDone(err, fmt.Sprintf("%s %d tickets of %d were sold, %d of them more than once", how, d.tickets-b.unsold(),
		d.tickets, twice), unknown)
}

// sell runs one sale, with the progress on a terminal.
func (d *ticketsDemo) sell(ctx context.Context, dir, url, name string) (*box, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, demo.Limit, fmt.Errorf("the sale took longer than %v", demo.Limit))
	defer cancel()
	show := func(sold int) { d.Progress("%d sold", sold) }
	b, err := openBox(dir, d.tickets)
	if err == nil {
		s := &selling{box: b, name: name, way: sellFast, public: public{d.processes, d.browsers}, ttl: d.ttl, show: show}
		err = s.run(ctx, url)
	}
	d.Erase()
	if cause := context.Cause(ctx); cause != nil {
		return b, cause
	}
	if _, told := errors.AsType[*exit.Status](err); err != nil && !told {
		return b, exit.With(exit.Failed, err)
	}
	return b, err
}

// judge prints the result of the sale with the lock. The error says that the result is wrong.
func (d *ticketsDemo) judge(b *box) error {
	if !d.JSON {
		if err := answer.Table(d.Out, "  SELLER\tPROCESS\tSOLD\tWAIT p50\tWAIT p99", b.sellers()); err != nil {
			return err
		}
	}
	waits := b.waits(0)
	d.Say("  %d tickets sold in %v; waits p50 %v, p99 %v.", len(b.sales), b.took.Round(time.Millisecond),
		quantile(waits, 0.5).Round(10*time.Microsecond), quantile(waits, 0.99).Round(10*time.Microsecond))
	if d.browsers > 0 && b.seen.torn == 0 {
		d.Say("  %d processes browsed meanwhile, as readers. In each of %d looks, what was sold and what was left were %d "+
			"together.",
			d.browsers, b.seen.looks, d.tickets)
	}
	twice, worst, times := b.twice()
	rises := b.tokensRise()
	switch {
	case twice > 0:
		return exit.With(exit.Failed,
			fmt.Errorf("oversold with the lock: %d tickets more than once, number %d to %d customers", twice, worst, times))
	case b.seen.torn > 0:
		return demo.Wrong("with the lock, %d of %d looks saw a half-made sale", b.seen.torn, b.seen.looks)
	case len(b.sales) != d.tickets:
		return exit.With(exit.Failed, fmt.Errorf("%d tickets were sold, not %d", len(b.sales), d.tickets))
	case !rises && d.tokenless:
		d.Say("  Exactly %d, none twice. This store gives no tokens that could be compared.", d.tickets)
		return nil
	case !rises:
		return exit.With(exit.Failed, errors.New("the tokens did not rise from sale to sale"))
	}
	d.Say("  Exactly %d, none twice. The tokens rose with every sale, from %d to %d.",
		d.tickets, b.sales[0].token, b.sales[len(b.sales)-1].token)
	return nil
}
