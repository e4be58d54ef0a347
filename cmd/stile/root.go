package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stilelock/stile/cmd/stile/internal/build"
	"github.com/stilelock/stile/cmd/stile/internal/cron"
	"github.com/stilelock/stile/cmd/stile/internal/elect"
	"github.com/stilelock/stile/cmd/stile/internal/inspect"
	"github.com/stilelock/stile/cmd/stile/internal/migrate"
	"github.com/stilelock/stile/cmd/stile/internal/run"
	"github.com/stilelock/stile/cmd/stile/internal/script"
	"github.com/stilelock/stile/cmd/stile/internal/serve"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/cmd/stile/internal/trial"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/nearest"
	"github.com/stilelock/stile/internal/phrase"
)

const rootLong = `stile holds locks for commands and scripts, over the store that they already run.

The store is --url, else the environment's STILE_URL, else an SQLite file in your
state directory, which needs no server. Examples of URLs:

  sqlite:///var/lib/app/locks.db     redis://host:6379
  rediss://user:password@host        redis+sentinel://h1,h2/primary

Exit status: that of CMD, or
  64  bad usage                      79  the lock was lost, or the grant is over
  69  the store is unreachable      126  CMD cannot be executed
  71  this machine lacks something  127  CMD cannot be found
  74  the answer cannot be written
  75  not acquired in time, or held`

// newRoot returns the command with all its verbs.
func newRoot() *cobra.Command {
	s, version := &store.Store{}, false
	root := &cobra.Command{
		Use: "stile", Short: "Locks for commands and scripts", Long: rootLong,
		SilenceErrors: true, SilenceUsage: true, DisableSuggestions: true,
	}
	root.PersistentFlags().StringVar(&s.URL, "url", "", "the store (default: STILE_URL, else SQLite in your state directory)")
	s.Flag = root.PersistentFlags().Lookup("url")
	told := &speech.Flags{}
	told.Register(root.PersistentFlags())
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if err := told.Set(); err != nil {
			return exit.Usage("%w", err)
		}
		return nil
	}
	root.SetFlagErrorFunc(wrongFlag)
	root.AddCommand(
		run.New(s), elect.New(s), cron.New(s), script.NewLock(s), script.NewRenew(s), script.NewUnlock(s),
		inspect.Ls(s), inspect.Show(s), inspect.Watch(s), inspect.Top(s), inspect.Wait(s), inspect.Break(s),
		trial.Doctor(s), trial.Bench(s), trial.Prove(s), migrate.New(s), serve.New(s), newDemo(s), newVersion(),
	)
	root.Args = cobra.ArbitraryArgs
	root.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case version:
			_, err := fmt.Fprintln(cmd.OutOrStdout(), build.Version())
			return err
		case len(args) == 0:
			return cmd.Help()
		}
		return noCommand(root, args[0])
	}
	root.Flags().BoolVar(&version, "version", false, "print what this program was built from")
	root.SetHelpCommand(newHelp(root))
	root.AddCommand(newCompletion(root), newMan(root))
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

func noCommand(root *cobra.Command, word string) error {
	known := commands(root)
	return exit.Usage("there is no command %s%s; there are: %s", phrase.Shortened(word), nearest.Hint(word, known),
		strings.Join(known, ", "))
}

// newHelp is cobra's help, except that help for an unknown command is an error.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Print what a command does",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return commands(root), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return noCommand(root, strings.Join(args, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// allowed describes the values of a flag, for the types whose parser does not.
var allowed = map[string]string{
	"bool": "it is true or false, and true if nothing follows",
	"int":  "it is a whole number of at most 18 digits",

	"uint64": "it is a whole number from 0 on, of at most 19 digits",
}

// wrongFlag explains a mistake in the flags.
func wrongFlag(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		if want := allowed[bad.GetFlag().Value.Type()]; want != "" {
			return exit.Usage("invalid argument %s for --%s: %s", phrase.Shortened(bad.GetValue()), bad.GetFlag().Name, want)
		}
		return exit.Usage("invalid argument %s for --%s: %w", phrase.Shortened(bad.GetValue()), bad.GetFlag().Name,
			errors.Unwrap(bad))
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return exit.Usage("%w", err)
	}
	if cmd.Flags().Lookup(unknown.GetSpecifiedShortnames()) != nil { // -url, the form of Go's own flags
		return exit.Usage("%w; did you mean --%s?", err, unknown.GetSpecifiedShortnames())
	}
	if words := cmd.Flags().Args(); len(words) > 1 && (cmd.Name() == "run" || cmd.Name() == "elect") {
		return exit.Usage("%w; put -- between NAME and CMD, as in: stile %s %s -- %s", err, cmd.Name(), phrase.Quoted(words[0]),
			phrase.Quoted(words[1]))
	}
	if len(unknown.GetSpecifiedName()) < 2 {
		return exit.Usage("%w", err)
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	hint := ""
	if meant := nearest.To(unknown.GetSpecifiedName(), known); meant != "" {
		hint = "; did you mean --" + meant + "?"
	}
	return exit.Usage("%w%s", err, hint)
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
