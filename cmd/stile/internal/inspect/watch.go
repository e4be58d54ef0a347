package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/flags"
	"github.com/stilelock/stile/cmd/stile/internal/page"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/ending"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
)

const watchLong = `Shows who holds NAME and who waits for it, until it is interrupted.

On a terminal it is a page that is redrawn after every change, with what changed
last. q or Ctrl-C ends it and leaves the last page on the terminal. Elsewhere it
is a line for every change, with its time and one of the words

  holds    it holds the lock         left     it stands in the queue no more
  waits    it waits for the lock     free     nobody stands in the queue
  kept     --at-least keeps it       run out  a lock-delay keeps others out

first for each that stands there already. --json prints a line for every change:
the object of stile show, and the time as "at".`

// Watch returns the command.
func Watch(s *store.Store) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "watch NAME", Short: "Show a lock's queue now and after every change", Long: watchLong,
		Args:              flags.OneName,
		ValidArgsFunction: store.CompleteNames(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := ending.Until(cmd.Context(), ending.Listen(ending.Signals))
			defer stop()
			out := cmd.OutOrStdout()
			switch {
			case asJSON:
				return watchJSON(ctx, out, s, args[0])
			case answer.ToStdout(out) && tty.Owned(os.Stdout):
				return watchPage(ctx, s, args[0])
			}
			return watchLines(ctx, out, s, args[0])
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for every change")
	return cmd
}

// watchJSON prints the queue after every change.
func watchJSON(ctx context.Context, w io.Writer, s *store.Store, name string) error {
	for q, err := range queues(ctx, s, name, nil) {
		if err == nil {
			v := viewOf(q)
			v.At = phrase.Stamp(time.Now())
			err = answer.JSON(w, v, "")
		} else {
			err = speech.Passing(err)
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// watchLines prints the changes. After an outage of the store, it prints the whole queue.
func watchLines(ctx context.Context, w io.Writer, s *store.Store, name string) error {
	var last *stile.Queue
	for q, err := range queues(ctx, s, name, nil) {
		if err != nil {
			if err := speech.Passing(err); err != nil {
				return err
			}
			last = nil
			continue
		}
		for _, c := range page.Changes(last, q, time.Now()) {
			if _, err := fmt.Fprintf(w, "%s %s\n", c.At.Format("15:04:05.000"), c.Text()); err != nil {
				return err
			}
		}
		last = &q
	}
	return context.Cause(ctx)
}

// appearsEvery is how often a watch checks whether the default store was made.
const appearsEvery = 100 * time.Millisecond

// queues yields the queue of a name now and after every change, as [stile.Client.Watch] does. Until the default store is
// made, nobody holds a lock in it. If opened is not nil, queues calls it with the client.
func queues(ctx context.Context, s *store.Store, name string, opened func(*stile.Client)) iter.Seq2[stile.Queue, error] {
	return func(yield func(stile.Queue, error) bool) {
		ticker := time.NewTicker(appearsEvery)
		defer ticker.Stop()
		c, err := s.Look(ctx)
		for shown := false; errors.Is(err, store.ErrNone); c, err = s.Look(ctx) {
			if !shown && !yield(stile.Queue{Name: name}, nil) {
				return
			}
			shown = true
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			if ctx.Err() == nil {
				code, _ := exit.Of(err)
				yield(stile.Queue{}, exit.With(code, err))
			}
			return
		}
		defer c.Close()
		if opened != nil {
			opened(c)
		}
		for q, err := range c.Watch(ctx, name) {
			if !yield(q, err) {
				return
			}
		}
	}
}
