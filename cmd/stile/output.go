package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// execute runs the command line. An answer that nobody got is an error of its own, whatever came of the rest.
func execute(root *cobra.Command) error {
	out := &output{w: os.Stdout}
	root.SetOut(out)
	err := root.ExecuteContext(context.Background())
	if s, known := errors.AsType[*status](err); out.err == nil || known && s.code != 0 {
		return err
	}
	return withStatus(exitOutput, fmt.Errorf("the answer cannot be written: %w", out.err))
}
