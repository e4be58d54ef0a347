package main

import (
	"github.com/spf13/cobra"

	"github.com/stilelock/stile/cmd/stile/internal/leader"
	"github.com/stilelock/stile/cmd/stile/internal/market"
	"github.com/stilelock/stile/cmd/stile/internal/payment"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/cmd/stile/internal/tickets"
	"github.com/stilelock/stile/cmd/stile/internal/ticks"
	"github.com/stilelock/stile/internal/exit"
)

func newDemo(s *store.Store) *cobra.Command {
	parent := &cobra.Command{
		Use: "demo", Short: "See what a lock is for",
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			return exit.Usage("stile demo needs to know what to show; there are: tickets, payment, market, cron, leader")
		},
	}
	parent.AddCommand(tickets.New(s), payment.New(s), market.New(s), ticks.New(s), leader.New(s),
		tickets.Seller(s), tickets.Browser(s), payment.Payer(s), payment.Orderer(), market.Trader(s), ticks.Machine(s), leader.Candidate(s))
	return parent
}
