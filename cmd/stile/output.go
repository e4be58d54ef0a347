package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/exit"
)

// execute runs the command line. If the output could not be written, that is an error of its own, whatever the command's
// outcome.
func execute(root *cobra.Command) error {
	out := &answer.Output{To: os.Stdout}
	root.SetOut(out)
	err := root.ExecuteContext(context.Background())
	if s, known := errors.AsType[*exit.Status](err); out.Err == nil || known && s.Code != 0 {
		return err
	}
	return exit.With(exit.Output, fmt.Errorf("the answer cannot be written: %w", out.Err))
}

// ended prints the error, if it has a text, and returns its exit status.
func ended(w io.Writer, err error) int {
	code, text := exit.Of(err)
	if text == "" || speech.Current == speech.Quiet && errors.Is(err, stile.ErrHeld) {
		return code
	}
	speech.Say(w, "%s", text)
	speech.Refer(w, text)
	return code
}
