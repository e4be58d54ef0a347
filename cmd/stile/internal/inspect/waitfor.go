package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/claim"
	"github.com/stilelock/stile/cmd/stile/internal/flags"
	"github.com/stilelock/stile/cmd/stile/internal/page"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/ending"
	"github.com/stilelock/stile/internal/exit"
)

const waitLong = `Waits until nobody holds NAME, and takes no lock: when it ends, somebody may hold
NAME again already. If two things must not happen at once, run them under stile run.

With --gone it waits only until the present holders have left, even if others hold
after them, as for the end of one run of a job.`

// A departure is one stile wait, and the claims whose end it waits for.
type departure struct {
	name    string
	store   *driver.Address
	gone    bool
	wait    flags.Duration
	waitSet bool
	busy    int

	seen    bool           // the queue was seen
	holders map[int64]bool // with --gone: the tickets of the holders at the first reading
	last    claim.Look     // the last reading that succeeded
	err     error          // the reason why there has been no answer since

	// The ends of --wait, and of the patience with a store that never answered, or that stopped answering.
	late, tooLate, away <-chan time.Time
	over                bool // --wait is over
}

// Wait returns the command.
func Wait(s *store.Store) *cobra.Command {
	d := &departure{}
	cmd := &cobra.Command{
		Use: "wait NAME", Short: "Wait until nobody holds a lock", Long: waitLong,
		Example:           "  stile wait migration --wait 10m || exit",
		Args:              flags.OneName,
		ValidArgsFunction: store.CompleteNames(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			d.name, d.waitSet = args[0], cmd.Flags().Changed("wait")
			if err := claim.CheckBusy(d.busy); err != nil {
				return err
			}
			a, _, err := s.Address()
			if err != nil {
				return err
			}
			if err := (&claim.Want{Names: args}).Conflict(a); err != nil {
				return err
			}
			d.store, s.Tells = a, true
			ctx, stop := ending.Until(cmd.Context(), ending.Listen(ending.Signals))
			defer stop()
			defer speech.Stderr.Erase()
			return d.run(ctx, s)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&d.gone, "gone", false, "wait only for the present holders of NAME")
	f.Var(&d.wait, "wait", "how long to wait (default: for ever)")
	f.IntVarP(&d.busy, "conflict-exit-code", "E", exit.Held, "the exit status if NAME is still held after --wait")
	return cmd
}

const (
	// waitSlack is how long a store may still take for its first answer when --wait is over.
	waitSlack = time.Second

	// waitOutage is how long a store that answered before may stay away.
	waitOutage = time.Minute
)

// run waits until the awaited claims are gone, or the time is over.
func (d *departure) run(ctx context.Context, s *store.Store) error {
	if d.waitSet {
		s.Within = time.Duration(d.wait) + claim.Slack // less than waitSlack, so that it learns how opening has ended
	}
	looks, stop := looksAt(ctx, s, d.name)
	defer stop()
	if d.waitSet {
		d.late, d.tooLate = time.After(time.Duration(d.wait)), time.After(time.Duration(d.wait)+waitSlack)
	}
	show, begun := claim.Shower(), time.Now()
	tick := time.NewTicker(speech.Delay)
	defer tick.Stop()
	for {
		if done, err := d.next(ctx, looks, tick.C); done || err != nil {
			return err
		}
		if d.over && d.seen {
			return d.held()
		}
		if waited := time.Since(begun); show != nil && waited >= speech.Delay && (d.seen || d.err != nil) {
			show(d.text(waited))
		}
	}
}

// looksAt returns the readings of a watch, until stop is called, which waits for the watch to end.
func looksAt(ctx context.Context, s *store.Store, name string) (_ <-chan claim.Look, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	looks, ended := make(chan claim.Look), make(chan struct{})
	go func() {
		defer close(ended)
		for q, err := range queues(ctx, s, name, nil) {
			select {
			case looks <- claim.Look{Queue: q, At: time.Now(), Err: err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return looks, func() {
		cancel()
		<-ended
	}
}

// next waits for the next event. It reports whether the wait is over.
func (d *departure) next(ctx context.Context, looks <-chan claim.Look, tick <-chan time.Time) (done bool, err error) {
	select {
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case l := <-looks:
		switch {
		case l.Err == nil:
			d.away = nil
			return d.see(l), nil
		case !d.seen || !exit.Passes(l.Err):
			return false, l.Err
		}
		d.err, d.away = l.Err, time.After(waitOutage)
	case <-d.late:
		d.over = true
	case <-d.tooLate:
		return false, store.WrapOpen(d.store, store.ErrSilent)
	case <-d.away:
		return false, exit.With(exit.Store, d.err)
	case <-tick:
	}
	return false, nil
}

// see takes a reading of the queue, and reports whether the wait is over.
func (d *departure) see(l claim.Look) bool {
	if !d.seen && d.gone {
		d.holders = map[int64]bool{}
		for _, c := range l.Queue.Claims {
			d.holders[c.Ticket] = c.Holds
		}
	}
	d.seen, d.last, d.err = true, l, nil
	return d.holder() == nil
}

// holder returns the first awaited claim, or nil.
func (d *departure) holder() *stile.Claim {
	for _, c := range d.last.Queue.Claims {
		if c.Holds && (d.holders == nil || d.holders[c.Ticket]) {
			return &c
		}
	}
	return nil
}

// held returns the error of a wait that ended while somebody still held.
func (d *departure) held() error {
	if d.err != nil {
		return exit.With(exit.Store, d.err)
	}
	c := d.holder()
	why := &stile.HeldError{By: c.Holder, Remaining: c.Remaining}
	err := error(why)
	if d.wait > 0 {
		err = fmt.Errorf("not free after %v: %w", time.Duration(d.wait), why)
	}
	return exit.With(d.busy, &stile.Error{Op: "wait", Name: d.name, Err: err})
}

func (d *departure) text(waited time.Duration) *page.Wait {
	return &page.Wait{
		Name: d.name, Waited: waited, Most: time.Duration(d.wait), Queue: page.Aged(d.last.Queue, time.Since(d.last.At)),
		Seen: d.seen, Silent: d.err != nil,
	}
}
