package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile/cmd/stile/internal/build"
	"github.com/stilelock/stile/internal/exit"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print what this program was built from",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usage("stile version takes no arguments")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), build.Version())
			return err
		},
	}
}
