package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/page"
	"github.com/stilelock/stile/driver"
)

const permitsLong = `Shows NAME's own count of permits, how many are held, and who set the count and why.
stile run NAME --of 0 goes by that count.

With --count it becomes N. Nothing is taken from the holders. The waiters learn
of it at once, and with 0 nobody gets a permit. Prints a line for the record:
what the count was and is, who changed it, when and why. The reason is kept in
the store too.

Only ZooKeeper with layout=semaphore keeps counts.`

// A counting is one stile permits.
type counting struct {
	name, reason string
	count        int
}

func newPermits(s *store) *cobra.Command {
	p := &counting{}
	cmd := &cobra.Command{
		Use: "permits NAME [--count N --reason TEXT]", Short: "Show or change the count of permits of a name (ZooKeeper)", Long: permitsLong,
		DisableFlagsInUseLine: true,
		Args:                  oneName,
		ValidArgsFunction:     completeNames(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.name = args[0]
			changes := cmd.Flags().Changed("count")
			bad := driver.CheckCount(int64(p.count))
			switch {
			case changes && strings.TrimSpace(p.reason) == "":
				return usage("stile permits --count needs --reason TEXT, for the record")
			case !changes && cmd.Flags().Changed("reason"):
				return usage("--reason needs --count: stile permits without it changes nothing")
			case bad != nil:
				return usage("--count %d: %v", p.count, bad)
			}
			return withStore(cmd, s, func(ctx context.Context, c *stile.Client) error {
				if !c.Traits().Counts {
					return usage("the store keeps no counts of permits; ZooKeeper does, with zk://host/?layout=semaphore")
				}
				if changes {
					return p.change(ctx, c, cmd)
				}
				return p.show(ctx, c, cmd)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&p.count, "count", 0, "how many permits the name is to have")
	f.StringVar(&p.reason, "reason", "", "why, for the record")
	return cmd
}

// show prints the count, and what is taken of it.
func (p *counting) show(ctx context.Context, c *stile.Client, cmd *cobra.Command) error {
	q, err := c.Show(ctx, p.name)
	if err != nil {
		return err
	}
	if !q.Counted {
		return &status{exitFailed, fmt.Errorf("%q has no count of permits: make one with --count", p.name)}
	}
	held, waiting := int64(0), 0
	for _, claim := range q.Claims {
		if claim.Holds {
			held += claim.Weight
		} else {
			waiting++
		}
	}
	by := ""
	if q.Setter != (stile.Holder{}) {
		by = ", set by " + page.Printable(q.Setter.String())
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d permits, %d held, %d waiting%s\n", q.Permits, held, waiting, by)
	return err
}

// change changes the count, and prints the line for the record.
func (p *counting) change(ctx context.Context, c *stile.Client, cmd *cobra.Command) error {
	q, err := c.Show(ctx, p.name)
	if err != nil {
		return err
	}
	if err := c.SetPermits(ctx, p.name, p.count, p.reason); err != nil {
		return err
	}
	was := "none"
	if q.Counted {
		was = strconv.FormatInt(q.Permits, 10)
	}
	slog.New(slog.NewTextHandler(cmd.OutOrStdout(), nil)).Info("permits changed by hand",
		"name", p.name, "was", was, "permits", p.count, "by", operator(), "reason", p.reason)
	return nil
}
