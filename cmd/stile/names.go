package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile/driver"
)

// oneName accepts the name of a lock and nothing else.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("stile %s needs one NAME, and got %d; as in: stile %s", cmd.Name(), len(args), cmd.Use)
	}
	return checkName(args[0])
}

// checkNames tells what is wrong with several names that are to be held at once.
func checkNames(names []string) error {
	for i, name := range names {
		if err := checkName(name); err != nil {
			return err
		}
		if slices.Contains(names[:i], name) {
			return usage("NAME %s is there twice: it would wait for itself", shortened(name))
		}
	}
	return nil
}

// checkName tells what is wrong with a NAME, which may be too long to be shown.
func checkName(name string) error {
	if err := driver.CheckName(name); err != nil {
		return usage("NAME %s: %w", shortened(name), err)
	}
	return nil
}
