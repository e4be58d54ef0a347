package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// An output is stdout, which notes what could not be written: a help text is written by a library that does not look.
type output struct {
	w   io.Writer
	err error // of the first write that failed
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// toStdout reports whether a writer is stdout.
func toStdout(w io.Writer) bool {
	o, ok := w.(*output)
	return ok && o.w == io.Writer(os.Stdout)
}

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
