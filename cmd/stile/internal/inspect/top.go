package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/flags"
	"github.com/stilelock/stile/cmd/stile/internal/page"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/ending"
	"github.com/stilelock/stile/internal/exit"
)

const topLong = `Shows the names in use that begin with PREFIX, the names with the most waiters
first. For each name it shows how many claims hold and wait, how long the first
waiter has waited, which claim is first, since when, and how much of its lease
remains.

On a terminal it is a page that is redrawn every two seconds; q or Ctrl-C ends it.
Elsewhere it is printed once. --json prints one array; see stile show for its
elements.`

// A topper is one stile top.
type topper struct {
	prefix string
	every  flags.Duration
	json   bool
}

const (
	topEvery = 2 * time.Second
	topOften = 100 * time.Millisecond // polling more often would only burden the store
)

// Top returns the command.
func Top(s *store.Store) *cobra.Command {
	t := &topper{every: flags.Duration(topEvery)}
	cmd := &cobra.Command{
		Use: "top [PREFIX]", Short: "Show the names with the most waiters", Long: topLong,
		ValidArgsFunction: store.CompleteNames(s),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usage("stile top takes one PREFIX at most, and got %d", len(args))
			}
			t.prefix = strings.Join(args, "")
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if t.every < flags.Duration(topOften) {
				return exit.Usage("--every %v is too often: it must be at least %v", time.Duration(t.every), topOften)
			}
			if out := cmd.OutOrStdout(); t.json || !answer.ToStdout(out) || !tty.Owned(os.Stdout) {
				return t.once(cmd, s, out)
			}
			ctx, stop := ending.Until(cmd.Context(), ending.Listen(ending.Signals))
			defer stop()
			return t.page(ctx, s)
		},
	}
	cmd.Flags().Var(&t.every, "every", "how often a terminal is redrawn")
	cmd.Flags().BoolVar(&t.json, "json", false, "print one JSON value")
	return cmd
}

// once prints the names.
func (t *topper) once(cmd *cobra.Command, s *store.Store, w io.Writer) error {
	return store.With(cmd, s, func(ctx context.Context, c *stile.Client) error {
		queues, err := store.Names(ctx, c, t.prefix)
		if err != nil {
			return err
		}
		page.Contended(queues)
		if t.json || len(queues) == 0 {
			return list(w, queues, t.json)
		}
		const wide = 1 << 16
		_, err = fmt.Fprintln(w, strings.Join(page.List(queues, wide), "\n"))
		return err
	})
}

// page shows the names on the terminal.
func (t *topper) page(ctx context.Context, s *store.Store) error {
	ctx, cancel := context.WithCancel(ctx)
	change, done := make(chan func() error), make(chan struct{})
	shown, seen := &page.Top{}, time.Time{}
	see := func(queues []stile.Queue, err error) error {
		now := time.Now()
		switch {
		case err == nil:
			page.Contended(queues)
			shown.Queues, shown.Seen, shown.Silent, seen = queues, true, time.Time{}, now
		case !exit.Passes(err):
			return err
		case shown.Silent.IsZero():
			shown.Silent = now
		}
		return nil
	}
	go func() {
		defer close(done)
		t.listNames(ctx, s, func(queues []stile.Queue, err error) {
			select {
			case change <- func() error { return see(queues, err) }:
			case <-ctx.Done():
			}
		})
	}()
	defer func() {
		cancel()
		<-done
	}()
	p := &pager{change: change, lines: func(columns, rows int) []page.Line {
		now := time.Now()
		aged := *shown
		aged.Now, aged.Queues = now, make([]stile.Queue, len(shown.Queues))
		for i, q := range shown.Queues {
			aged.Queues[i] = page.Aged(q, now.Sub(seen))
		}
		return aged.Lines(columns, rows)
	}}
	return p.run(ctx)
}

// listNames lists the names again and again until ctx ends. There are none until the default store is made.
func (t *topper) listNames(ctx context.Context, s *store.Store, told func([]stile.Queue, error)) {
	var c *stile.Client
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	for tick := time.NewTicker(time.Duration(t.every)); ; {
		var queues []stile.Queue
		var err error
		if c == nil {
			if c, err = s.Look(ctx); err != nil && !errors.Is(err, store.ErrNone) {
				code, _ := exit.Of(err)
				err = exit.With(code, err)
			}
		}
		if err == nil {
			queues, err = c.List(ctx, t.prefix)
		}
		if errors.Is(err, store.ErrNone) {
			err = nil
		}
		if ctx.Err() == nil {
			told(queues, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}
