package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile/cmd/stile/internal/exit"
	"github.com/stilelock/stile/cmd/stile/internal/flags"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
	"github.com/stilelock/stile/internal/draw"
)

// A showing is how a demo is shown: what all demos have in common.
type showing struct {
	quick, json bool
	svg         flags.File

	out io.Writer
	tty bool
}

// flags adds those that all demos have. quick says what --quick leaves out.
func (s *showing) flags(cmd *cobra.Command, quick string) {
	s.svg.Flag = "svg"
	cmd.Args = cobra.ArbitraryArgs
	cmd.Flags().BoolVar(&s.quick, "quick", false, "take at most 5s: "+quick)
	cmd.Flags().BoolVar(&s.json, "json", false, "print JSON in place of the table")
	cmd.Flags().StringVar(&s.svg.Path, "svg", "", "write a picture to this file: who held when, which fault, what was refused")
}

// begin looks at the command line.
func (s *showing) begin(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usage("stile demo %s takes flags only", cmd.Name())
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a reader that has gone is an error of the write: the demo cleans up
	s.out, s.tty = cmd.OutOrStdout(), tty.Is(os.Stdout) && !s.json
	return s.svg.Check(cmd.Flags().Changed("svg"))
}

// say prints a line for a person.
func (s *showing) say(format string, args ...any) {
	if !s.json {
		fmt.Fprintf(s.out, format+"\n", args...)
	}
}

// progress shows how far the demo is, on a terminal, until erase.
func (s *showing) progress(format string, args ...any) {
	if s.tty {
		fmt.Fprintf(s.out, "\r  %-58s", fmt.Sprintf(format, args...))
	}
}

func (s *showing) erase() {
	if s.tty {
		fmt.Fprint(s.out, "\r", strings.Repeat(" ", 60), "\r")
	}
}

// draw writes the picture, if one is wanted.
func (s *showing) draw(t *draw.Timeline) error {
	if s.svg.Path == "" {
		return nil
	}
	text, err := t.SVG()
	if err != nil {
		return err
	}
	return s.svg.Write(text)
}

// halfDone adds to an error what is known of a demo that did not come to its end, and what is not. A signal needs no words.
func halfDone(err error, known, unknown string) error {
	if _, signalled := errors.AsType[*exit.Interrupted](err); err == nil || signalled {
		return err
	}
	code := exit.Store
	if s, ok := errors.AsType[*exit.Status](err); ok {
		code = s.Code
	}
	text := fmt.Errorf("%w; known: %s", err, known)
	if unknown != "" {
		text = fmt.Errorf("%w; unknown: %s", text, unknown)
	}
	return exit.With(code, text)
}

// claimsLeft says what nobody knows of the store after a demo that did not come to its end.
func claimsLeft(names string, ttl time.Duration) string {
	return fmt.Sprintf("whether the store still has claims below %s, which end with their leases of %v", names, ttl)
}

// wrong is the error of a demo that did not come out as it must.
func wrong(format string, args ...any) error {
	return exit.With(exit.Failed, fmt.Errorf(format, args...))
}

func wasOr(n int, what string) string {
	if n == 1 {
		return "1 " + what + " was"
	}
	return fmt.Sprintf("%d %ss were", n, what)
}
