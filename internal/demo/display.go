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

// A Showing is what all demos have in common on the command line and on the terminal.
type Showing struct {
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

// Flags adds the flags that all demos have. quick says what --quick leaves out.
func (s *Showing) Flags(f Flags, quick string) {
	s.svg.Flag = "svg"
	f.BoolVar(&s.Quick, "quick", false, "take at most 5s: "+quick)
	f.BoolVar(&s.JSON, "json", false, "print JSON in place of the table")
	f.StringVar(&s.svg.Path, "svg", "", "write a picture to this file: who held when, which fault, what was refused")
}

// Begin checks the flags; given reports whether the command line has a flag. On a terminal the demo then shows its
// progress.
func (s *Showing) Begin(out io.Writer, terminal bool, given func(flag string) bool) error {
	ending.OutliveReaders() // a reader that is gone makes the write fail: the demo cleans up
	s.Out, s.tty = out, terminal && !s.JSON
	return s.svg.Check(given("svg"))
}

// Say prints a line for a person.
func (s *Showing) Say(format string, args ...any) {
	if !s.JSON {
		fmt.Fprintf(s.Out, format+"\n", args...)
	}
}

// Progress shows the progress of the demo on a terminal, until Erase.
func (s *Showing) Progress(format string, args ...any) {
	if s.tty {
		fmt.Fprintf(s.Out, "\r  %-58s", fmt.Sprintf(format, args...))
	}
}

// Erase removes the progress.
func (s *Showing) Erase() {
	if s.tty {
		fmt.Fprint(s.Out, "\r", strings.Repeat(" ", 60), "\r")
	}
}

// Draw writes the picture, if the user wants one.
func (s *Showing) Draw(t *draw.Timeline) error {
	if s.svg.Path == "" {
		return nil
	}
	text, err := t.SVG()
	if err != nil {
		return err
	}
	return s.svg.Write(text)
}

// HalfDone adds to an error what is known of a demo that did not end properly, and what is unknown. A signal needs no
// words.
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

// ClaimsLeft returns what is unknown of the store after a demo that did not end properly.
func ClaimsLeft(names string, ttl time.Duration) string {
	return fmt.Sprintf("whether the store still has claims below %s, which end with their leases of %v", names, ttl)
}

// Wrong returns the error of a demo with a wrong result.
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
