package main

import (
	"github.com/spf13/cobra"

	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/cmd/stile/internal/tickets"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/nearest"
	"github.com/stilelock/stile/internal/phrase"
)

// elsewhere are the demos that are part of another program, and elsewhereAt is its address.
var elsewhere = []string{"payment", "market", "cron", "leader"}

const (
	elsewhereAt = "github.com/stilelock/stile/examples/demo@latest"
	shown       = "there is: tickets; payment, market, cron and leader are a program of their own: go run " + elsewhereAt
)

func newDemo(s *store.Store) *cobra.Command {
	parent := &cobra.Command{
		Use: "demo", Short: "See what a lock is for",
		Long: "Shows what a lock is for. Four more demos, payment, market, cron and leader, are a program of\ntheir own:\n\n  " +
			"go run " + elsewhereAt + "\n  go run ./examples/demo    in a clone",
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usage("stile demo has no %s%s; %s", phrase.Shortened(args[0]), nearest.Hint(args[0], []string{"tickets"}),
					shown)
			}
			return exit.Usage("stile demo needs to know what to show; %s", shown)
		},
	}
	parent.AddCommand(tickets.New(s), tickets.Seller(s), tickets.Browser(s))
	for _, name := range elsewhere {
		parent.AddCommand(&cobra.Command{
			Use: name, Hidden: true, DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error {
				return exit.Usage("stile demo %s is a program of its own now; run it with: go run %s %[1]s; or in a clone with: go "+
					"run ./examples/demo %[1]s",
					name, elsewhereAt)
			},
		})
	}
	return parent
}
