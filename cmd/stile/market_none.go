//go:build no_redis

package main

import "github.com/spf13/cobra"

func newMarketDemo(*store) *cobra.Command {
	return &cobra.Command{
		Use: "market", Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			return usage("stile demo market keeps its data in Redis, and this stile was built without (build tag no_redis)")
		},
		Args: cobra.ArbitraryArgs,
	}
}

func newTrader(*store) *cobra.Command { return &cobra.Command{Use: "trader", Hidden: true} }
