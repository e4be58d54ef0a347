package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile/cmd/stile/internal/answer"
	"github.com/stilelock/stile/cmd/stile/internal/exit"
)

// execute runs the command line. An answer that nobody got is an error of its own, whatever came of the rest.
func execute(root *cobra.Command) error {
	out := &answer.Output{To: os.Stdout}
	root.SetOut(out)
	err := root.ExecuteContext(context.Background())
	if s, known := errors.AsType[*exit.Status](err); out.Err == nil || known && s.Code != 0 {
		return err
	}
	return exit.With(exit.Output, fmt.Errorf("the answer cannot be written: %w", out.Err))
}
