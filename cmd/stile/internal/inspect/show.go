// Package inspect is the verbs that read queues, or follow one until it changes: ls, show, top, watch and wait; and break,
// which removes a claim that it shows.
//
// Of the other packages of the command it may import claim, flags, page, speech, store and tty.
package inspect

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/flags"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
)

const lsLong = `Lists the names that somebody holds or waits for, and that begin with PREFIX.
--json prints one array, empty if there are none; see stile show for its elements.

--deadlocks shows circles of waiters instead: each waiter has a lock that the next
one waits for. It knows the locks that a waiter's context held when the waiter came
(stile.Lease.Context, Lock.Do). So it sees the locks of Go programs, and no locks of
shell scripts. A circle is only a possible deadlock, since a waiter may give up.
With --json it prints an array of arrays of claims as stile show has them. Each claim
also has name, for which it waits, and has, the names that its context holds.`

// Ls returns the command.
func Ls(s *store.Store) *cobra.Command {
	var asJSON, deadlocks bool
	cmd := &cobra.Command{
		Use: "ls [PREFIX]", Short: "List the names in use", Long: lsLong,
		ValidArgsFunction: store.CompleteNames(s),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usage("stile ls takes one PREFIX at most, and got %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix := ""
			if len(args) == 1 {
				prefix = args[0]
			}
			return store.With(cmd, s, func(ctx context.Context, c *stile.Client) error {
				if deadlocks {
					circles, err := deadlocksOf(ctx, c, prefix)
					if err != nil {
						return err
					}
					return showDeadlocks(cmd.OutOrStdout(), circles, asJSON)
				}
				queues, err := store.Names(ctx, c, prefix)
				if err != nil {
					return err
				}
				return list(cmd.OutOrStdout(), queues, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON value")
	cmd.Flags().BoolVar(&deadlocks, "deadlocks", false, "show who may wait for each other for ever, and nothing else")
	return cmd
}

func list(w io.Writer, queues []stile.Queue, asJSON bool) error {
	if asJSON {
		views := make([]QueueView, len(queues))
		for i, q := range queues {
			views[i] = viewOf(q)
		}
		return answer.JSON(w, views, "  ")
	}
	if len(queues) == 0 {
		_, err := fmt.Fprintln(w, "no names are in use")
		return err
	}
	var rows [][]string
	for _, q := range queues {
		holders, kept, permits := 0, 0, int64(0)
		for _, c := range q.Claims {
			if c.Left {
				kept++
			}
			if c.Holds && !c.Left {
				holders++
				permits += c.Weight
			}
		}
		hold := strconv.Itoa(holders)
		if q.Permits > 0 {
			hold = fmt.Sprintf("%d of %d", permits, q.Permits)
		}
		by, since, remaining := "", "", ""
		if len(q.Claims) > 0 {
			first := q.Claims[0]
			by, since, remaining = firstText(first), phrase.Short(first.Since), left(first)
		}
		rows = append(rows, []string{
			q.Name, hold, strconv.Itoa(len(q.Claims) - holders - kept), by, since, remaining,
		})
	}
	return answer.Table(w, "NAME\tHOLD\tWAIT\tFIRST\tSINCE\tREMAINING", rows)
}

// firstText names the owner of a name's first claim. A released claim is kept for a while, and nobody holds it.
func firstText(c stile.Claim) string {
	if c.Left {
		return "nobody; kept after " + c.Holder.String()
	}
	return c.Holder.String()
}

const showLong = `Shows who holds NAME and who waits for it, in the order in which they get it. For
a job (stile cron, or package jobs) it also shows the last tick, what became of it,
and the next one.

--json prints one object with name, permits (0 unless the name has permits) and
claims, each with ticket (a string), kind (exclusive, shared, permits), weight,
state (holds, waits, released), since, remaining and ttl (in seconds), owner, program,
host, pid, reason, value and principal. It also has job, which is null, or an object
with tick, state (started, over), outcome, error, took (in seconds), token (a string),
next, owner, program, host and pid. All keys are always there.`

// Show returns the command.
func Show(s *store.Store) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show who holds a lock and who waits for it", Long: showLong,
		Args:              flags.OneName,
		ValidArgsFunction: store.CompleteNames(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			return store.With(cmd, s, func(ctx context.Context, c *stile.Client) error {
				q, err := c.Show(ctx, args[0])
				if err != nil {
					return err
				}
				past, err := pastOf(ctx, c, args[0])
				switch {
				case err != nil:
					return err
				case asJSON:
					return answer.JSON(cmd.OutOrStdout(), ShownView{viewOf(q), jobViewOf(past)}, "  ")
				}
				if err := show(cmd.OutOrStdout(), q); err != nil {
					return err
				}
				return showPast(cmd.OutOrStdout(), past, q)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON value")
	return cmd
}

// show writes the queue of one name for a person.
func show(w io.Writer, q stile.Queue) error {
	if len(q.Claims) == 0 {
		_, err := fmt.Fprintf(w, "%s is free: nobody holds it or waits for it\n", phrase.Printable(phrase.Quoted(q.Name)))
		return err
	}
	var rows [][]string
	for _, c := range q.Claims {
		rows = append(rows, row(q, c))
	}
	return answer.Table(w, rowHead, rows)
}
