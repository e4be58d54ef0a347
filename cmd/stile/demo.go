package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile/cmd/stile/internal/guard"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
	"github.com/stilelock/stile/driver"
)

const demoLong = `Several processes sell tickets from one file. Each reads how many are left, thinks
for a moment, writes one less, and notes the sale in the ledger: first without a
lock, so that tickets are sold twice, then with one.

The locks are kept in a new SQLite file, or in the store of --url or STILE_URL.
Exits with 1 if tickets were sold twice with the lock.`

// A demo is one stile demo tickets.
type demo struct {
	processes, tickets int
	out                io.Writer
	tty                bool
	tokenless          bool // the store's tokens need not rise
}

const (
	// Without a lock the tickets are almost sure to be sold twice. If not, it is tried again.
	demoTries = 5

	demoLimit = 50 * time.Second // for each sale
)

func newDemo(s *store) *cobra.Command {
	d := &demo{}
	parent := &cobra.Command{
		Use: "demo", Short: "See what a lock is for",
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			return usage("stile demo needs to know what to show; there are: tickets, payment, market, cron, leader")
		},
	}
	tickets := &cobra.Command{
		Use: "tickets", Short: "Sell tickets from many processes, without a lock and with one", Long: demoLong,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return usage("stile demo tickets takes flags only")
			case d.processes < 2 || d.processes > 64:
				return usage("--processes %d: it must be from 2 to 64", d.processes)
			case d.tickets < 1 || d.tickets > 10000:
				return usage("--tickets %d: it must be from 1 to 10000", d.tickets)
			}
			d.out, d.tty = cmd.OutOrStdout(), tty.Is(os.Stdout)
			return d.run(cmd.Context(), s)
		},
	}
	tickets.Args = cobra.ArbitraryArgs
	tickets.Flags().IntVar(&d.processes, "processes", 8, "how many sell")
	tickets.Flags().IntVar(&d.tickets, "tickets", 100, "how many there are")
	parent.AddCommand(tickets, newPayment(s), newMarketDemo(s), newCronDemo(s), newLeaderDemo(s),
		newSeller(s), newPayer(s), newOrderer(), newTrader(s), newMachine(s), newCandidate(s))
	return parent
}

func (d *demo) run(ctx context.Context, s *store) error {
	ctx, stop := untilSignal(ctx, listen(guard.Ending))
	defer stop()
	stage, err := newStage(ctx, s)
	if err != nil {
		return err
	}
	defer stage.close()
	d.tokenless = stage.traits.Fencing == driver.NoFencing
	d.say("%d processes sell %d tickets from one file.\n", d.processes, d.tickets)
	if err := d.without(ctx, stage); err != nil {
		return err
	}
	d.say("\nWith a lock, kept in %s:", stage.address)
	box, err := d.sell(ctx, stage.path("locked"), stage.url, "demo/tickets/"+rand.Text()[:8])
	if err != nil {
		return err
	}
	return d.judge(box)
}

// without sells without a lock, until tickets are sold twice.
func (d *demo) without(ctx context.Context, stage *stage) error {
	d.say("Without a lock:")
	for try := range demoTries {
		box, err := d.sell(ctx, stage.path("free"+strconv.Itoa(try)), stage.url, "")
		if err != nil {
			return err
		}
		if twice, worst, times := box.twice(); twice > 0 {
			d.say("  %d tickets were sold %d times in %v: %d of them more than once, number %d to %d customers.",
				d.tickets, len(box.sales), box.took.Round(time.Millisecond), twice, worst, times)
			return nil
		}
		d.say("  By luck no ticket was sold twice. Once more:")
	}
	d.say("  By luck no ticket was sold twice in %d tries; more --processes would help.", demoTries)
	return nil
}

// sell runs one sale, with the progress on a terminal.
func (d *demo) sell(ctx context.Context, dir, url, name string) (*box, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, demoLimit, fmt.Errorf("the sale took longer than %v", demoLimit))
	defer cancel()
	show := func(sold int) {
		if d.tty {
			fmt.Fprintf(d.out, "\r  %d sold ", sold)
		}
	}
	b, err := openBox(dir, d.tickets)
	if err == nil {
		err = b.sell(ctx, d.processes, url, name, show)
	}
	if d.tty {
		fmt.Fprint(d.out, "\r", strings.Repeat(" ", 20), "\r")
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if _, told := errors.AsType[*status](err); err != nil && !told {
		return nil, &status{exitFailed, err}
	}
	return b, err
}

// judge prints what came of the sale with the lock. The error says what should not have happened.
func (d *demo) judge(b *box) error {
	if err := table(d.out, "  SELLER\tPROCESS\tSOLD\tWAIT p50\tWAIT p99", b.sellers()); err != nil {
		return err
	}
	waits := b.waits(0)
	d.say("  %d tickets sold in %v; waits p50 %v, p99 %v.", len(b.sales), b.took.Round(time.Millisecond),
		quantile(waits, 0.5).Round(10*time.Microsecond), quantile(waits, 0.99).Round(10*time.Microsecond))
	twice, worst, times := b.twice()
	rises := b.tokensRise()
	switch {
	case twice > 0:
		return &status{exitFailed, fmt.Errorf("oversold with the lock: %d tickets more than once, number %d to %d customers", twice, worst, times)}
	case len(b.sales) != d.tickets:
		return &status{exitFailed, fmt.Errorf("%d tickets were sold, not %d", len(b.sales), d.tickets)}
	case !rises && d.tokenless:
		d.say("  Exactly %d, none twice. This store gives no tokens that could be compared.", d.tickets)
		return nil
	case !rises:
		return &status{exitFailed, errors.New("the tokens did not rise from sale to sale")}
	}
	d.say("  Exactly %d, none twice. The tokens rose with every sale, from %d to %d.",
		d.tickets, b.sales[0].token, b.sales[len(b.sales)-1].token)
	return nil
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }
