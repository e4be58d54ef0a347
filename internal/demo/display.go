//go:build unix

package demo

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/draw"
	"github.com/stilelock/stile/internal/ending"
	"github.com/stilelock/stile/internal/exit"
)

// A Display has the common flags of the demos and writes their output.
type Display struct {
	Quick, JSON bool
	svg         answer.File

	Out io.Writer
	tty bool
}

// Flags are the flags of a program, in package flag or a library like it.
type Flags interface {
	BoolVar(p *bool, name string, value bool, usage string)
	StringVar(p *string, name, value, usage string)
}

// Flags adds the common flags. quick is the part of --quick's usage that names what the demo leaves out.
func (s *Display) Flags(f Flags, quick string) {
	s.svg.Flag = "svg"
	f.BoolVar(&s.Quick, "quick", false, "take at most 5s: "+quick)
	f.BoolVar(&s.JSON, "json", false, "print JSON in place of the table")
	f.StringVar(&s.svg.Path, "svg", "", "write a picture to this file: who held when, which fault, what was refused")
}

// Begin checks the flags; given reports whether the command line has a flag. If out is a terminal, Progress writes there,
// unless the user wants JSON.
func (s *Display) Begin(out io.Writer, terminal bool, given func(flag string) bool) error {
	ending.OutliveReaders() // without a reader the write fails, and the demo cleans up
	s.Out, s.tty = out, terminal && !s.JSON
	return s.svg.Check(given("svg"))
}

// Say prints a line, unless the user wants JSON.
func (s *Display) Say(format string, args ...any) {
	if !s.JSON {
		fmt.Fprintf(s.Out, format+"\n", args...)
	}
}

// Progress shows the demo's progress on a terminal, until the next Progress or Erase.
func (s *Display) Progress(format string, args ...any) {
	if s.tty {
		fmt.Fprintf(s.Out, "\r  %-58s", fmt.Sprintf(format, args...))
	}
}

// Erase removes the line of Progress.
func (s *Display) Erase() {
	if s.tty {
		fmt.Fprint(s.Out, "\r", strings.Repeat(" ", 60), "\r")
	}
}

// Draw writes the picture, if the user wants one.
func (s *Display) Draw(t *draw.Timeline) error {
	if s.svg.Path == "" {
		return nil
	}
	text, err := t.SVG()
	if err != nil {
		return err
	}
	return s.svg.Write(text)
}

// HalfDone adds the known and unknown results of an unfinished demo to its error. The error of a signal stays as it is.
func HalfDone(err error, known, unknown string) error {
	if _, signalled := errors.AsType[*ending.Interrupted](err); err == nil || signalled {
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

// ClaimsLeft returns the unknown of HalfDone for the claims in the store.
func ClaimsLeft(names string, ttl time.Duration) string {
	return fmt.Sprintf("whether the store still has claims below %s, which end with their leases of %v", names, ttl)
}

// Wrong returns the error of a demo with a wrong result: exit status 1.
func Wrong(format string, args ...any) error {
	return exit.With(exit.Failed, fmt.Errorf(format, args...))
}

// Were returns a phrase such as "3 tickets were".
func Were(n int, what string) string {
	if n == 1 {
		return "1 " + what + " was"
	}
	return fmt.Sprintf("%d %ss were", n, what)
}
