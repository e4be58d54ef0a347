package main

import (
	"github.com/spf13/cobra"

	"github.com/stilelock/stile/cmd/stile/internal/exit"
	"github.com/stilelock/stile/cmd/stile/internal/store"
)

func newDemo(s *store.Store) *cobra.Command {
	parent := &cobra.Command{
		Use: "demo", Short: "See what a lock is for",
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			return exit.Usage("stile demo needs to know what to show; there are: tickets, payment, market, cron, leader")
		},
	}
	parent.AddCommand(newTickets(s), newPayment(s), newMarketDemo(s), newCronDemo(s), newLeaderDemo(s),
		newSeller(s), newBrowser(s), newPayer(s), newOrderer(), newTrader(s), newMachine(s), newCandidate(s))
	return parent
}
