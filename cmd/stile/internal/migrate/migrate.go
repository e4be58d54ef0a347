// Package migrate is stile migrate: the tables of a database.
//
// Of the other packages of the command it may import store.
package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/exit"
)

// Schemas are functions that return the SQL for the tables of a store, by the scheme of its URL. The files of the stores add
// them.
var Schemas = map[string]func(a *driver.Address) (string, error){}

const migrateLong = `stile migrate makes the tables of locks in a database, unless they are there,
or brings those of an older stile up to date.

A program that uses the database does the same when it starts. This is for
databases whose users may not make tables: run it as one who may, or have
--print show the SQL, which asks no database, and give that to whoever runs it.`

// New returns the command.
func New(s *store.Store) *cobra.Command {
	var printOnly bool
	cmd := &cobra.Command{
		Use: "migrate", Short: "Make the tables of locks in a database, or print the SQL", Long: migrateLong,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usage("stile migrate takes no arguments, only --url and --print")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, _, err := s.Address()
			if err != nil {
				return err
			}
			schema, ok := Schemas[a.Scheme]
			if !ok {
				return exit.Usage("%s:// has no tables to make; those with some are %s", a.Scheme,
					strings.Join(slices.Sorted(maps.Keys(Schemas)), ", "))
			}
			if word := a.Param("layout", "queue"); word != "queue" {
				return exit.Usage("the table of layout %s belongs to another library, which makes it", word)
			}
			text, err := schema(a)
			if err != nil {
				return exit.Usage("%w", err)
			}
			if printOnly {
				_, err := fmt.Fprint(cmd.OutOrStdout(), text)
				return err
			}
			return store.WithMade(cmd, s, func(context.Context, *stile.Client) error { // opening the store makes the tables
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "the tables of locks are in %s\n", a)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&printOnly, "print", false, "print the SQL and ask no database")
	return cmd
}
