//go:build unix

// Package verb is the command line of a demo: its name, flags and help, and the roles of its processes.
package verb

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/stilelock/stile/internal/exit"
)

// A Verb is a demo on the command line, with its flags.
type Verb struct {
	Name, Short, Long string
	Flags             *flag.FlagSet
	Run               func(ctx context.Context, out io.Writer) error
}

// New returns a verb without flags.
func New(name, short, long string) *Verb {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard) // main reports the error
	return &Verb{Name: name, Short: short, Long: long, Flags: f}
}

// Parse reads the flags. Its error is [flag.ErrHelp] if the user asks for help.
func (v *Verb) Parse(args []string) error {
	err := v.Flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return exit.Usage("%w; see: demo help %s", err, v.Name)
	case v.Flags.NArg() > 0:
		return exit.Usage("demo %s takes flags only", v.Name)
	}
	return nil
}

// Given reports whether the command line has a flag.
func (v *Verb) Given(name string) (given bool) {
	v.Flags.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// Terminal reports whether stdout is a terminal.
func Terminal() bool {
	_, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// Help writes the description of the demo, and its flags.
func (v *Verb) Help(w io.Writer) {
	fmt.Fprintf(w, "%s\n\nFlags:\n", v.Long)
	v.Flags.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "false" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(w, "  %-18s %s\n", strings.TrimSpace("--"+f.Name+" "+value), usage)
	})
}

// A Role is a kind of process of a demo: its name on the command line, the number of its arguments, and its program.
type Role struct {
	Name  string
	Count int
	Run   func(ctx context.Context, args []string) error
}
