// Package flags checks flags and arguments before anything is done: durations and names of locks.
//
// Of the other packages of the command it may import none.
package flags

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
)

// OneName accepts exactly one name of a lock.
func OneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return exit.Usage("stile %s needs one NAME, and got %d; as in: stile %s", cmd.Name(), len(args), cmd.Use)
	}
	return CheckName(args[0])
}

// CheckNames returns an error if several names cannot be held at once.
func CheckNames(names []string) error {
	for i, name := range names {
		if err := CheckName(name); err != nil {
			return err
		}
		if slices.Contains(names[:i], name) {
			return exit.Usage("NAME %s is there twice: it would wait for itself", phrase.Shortened(name))
		}
	}
	return nil
}

// CheckName returns an error about a NAME. The error shortens a name that is too long to show.
func CheckName(name string) error {
	if err := driver.CheckName(name); err != nil {
		return exit.Usage("NAME %s: %w", phrase.Shortened(name), err)
	}
	return nil
}
