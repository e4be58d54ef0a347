package store

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile/internal/phrase"
)

// CompleteNames offers the names in use for the first argument. If the store does not answer soon, it offers none.
func CompleteNames(s *Store) cobra.CompletionFunc {
	all := CompleteAllNames(s)
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return all(cmd, args, begun)
	}
}

// CompleteAllNames offers the names in use for each argument before a --, each once.
func CompleteAllNames(s *Store) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(os.Args) > 0 && slices.Contains(os.Args[:len(os.Args)-1], "--") { // the library does not report it
			return nil, cobra.ShellCompDirectiveDefault
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		c, err := s.Look(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		queues, err := c.List(ctx, begun)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for _, q := range queues {
			if phrase.Printable(q.Name) == q.Name && strings.HasPrefix(q.Name, begun) && !slices.Contains(args, q.Name) {
				names = append(names, q.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
