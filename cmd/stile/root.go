package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const rootLong = `stile holds locks for commands and scripts, over the store that they already run.

The store is --url, else the environment's STILE_URL, else an SQLite file in your
state directory, which needs no server. Examples of URLs:

  sqlite:///var/lib/app/locks.db     redis://host:6379
  rediss://user:password@host        redis+sentinel://h1,h2/primary

Exit status: that of CMD, or
  64  bad usage                      79  the lock was lost, or the grant is over
  69  the store is unreachable      126  CMD cannot be executed
  74  the answer cannot be written  127  CMD cannot be found
  75  not acquired in time, or held`

// newRoot returns the command with all that it can do.
func newRoot() *cobra.Command {
	s := &store{}
	root := &cobra.Command{
		Use: "stile", Short: "Locks for commands and scripts", Long: rootLong,
		SilenceErrors: true, SilenceUsage: true, DisableSuggestions: true,
	}
	root.PersistentFlags().StringVar(&s.url, "url", "", "the store (default: STILE_URL, else SQLite in your state directory)")
	s.flag = root.PersistentFlags().Lookup("url")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%w", err) })
	root.AddCommand(
		newRun(s), newElect(s), newLock(s), newRenew(s), newUnlock(s), newLs(s), newShow(s), newWatch(s), newBreak(s), newMigrate(s), newDemo(s), newVersion(),
	)
	root.Args = cobra.ArbitraryArgs
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return usage("there is no command %q; there are: %s", args[0], strings.Join(commands(root), ", "))
	}
	return root
}

func commands(root *cobra.Command) (names []string) {
	for _, c := range root.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	slices.Sort(names)
	return names
}

// oneName accepts the name of a lock and nothing else.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("stile %s needs one NAME, and got %d; as in: stile %s", cmd.Name(), len(args), cmd.Use)
	}
	return nil
}

// A duration is a flag's value that insists on a unit.
type duration time.Duration

func (d *duration) Set(text string) error {
	v, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return errors.New("a duration is a number with its unit, such as 500ms, 10s or 1h30m")
	case v < 0:
		return errors.New("it must not be negative")
	}
	*d = duration(v)
	return nil
}

func (d *duration) String() string {
	if *d == 0 {
		return ""
	}
	return fmt.Sprint(time.Duration(*d))
}

// Type names it in the help.
func (d *duration) Type() string { return "duration" }
