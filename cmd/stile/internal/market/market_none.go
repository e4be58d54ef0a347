//go:build no_redis

package market

import (
	"github.com/spf13/cobra"

	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/internal/exit"
)

// New returns the command, which cannot be run.
func New(*store.Store) *cobra.Command {
	return &cobra.Command{
		Use: "market", Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			return exit.Usage("stile demo market keeps its data in Redis, and this stile was built without (build tag no_redis)")
		},
		Args: cobra.ArbitraryArgs,
	}
}

// Trader returns no actor.
func Trader(*store.Store) *cobra.Command { return &cobra.Command{Use: "trader", Hidden: true} }
