package serve

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/server"
)

// newToken returns stile serve token, whose commands work on the file that a flag names.
func newToken() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "token", Short: "Make, list and revoke the tokens of the service's clients",
		RunE: func(_ *cobra.Command, _ []string) error {
			return exit.Usage("stile serve token needs one of new, list, revoke; as in: stile serve token new ci --allow lock:ci/ " +
				"--tokens FILE")
		},
	}
	cmd.AddCommand(newNew(&file), newList(&file), newRevoke(&file))
	for _, c := range cmd.Commands() {
		c.Flags().StringVar(&file, "tokens", "", "the `file` with the hashes of the tokens")
	}
	return cmd
}

const newLong = `Makes a token for a principal, and prints it: once, since the file keeps only its
SHA-256. A service with this file knows the token at once.

--allow says what the principal may do: verbs, then a colon and the beginning of the
names. Without the colon it is for all names. The verbs are lock, share (to lock as a
reader, or some permits), read (to see who holds) and break.`

func newNew(file *string) *cobra.Command {
	var allow []string
	cmd := &cobra.Command{
		Use: "new PRINCIPAL", Short: "Make a token", Long: newLong,
		Args: one("new needs one PRINCIPAL", file),
		RunE: func(cmd *cobra.Command, args []string) error {
			var rights []right
			for _, text := range allow {
				r, err := parseRight(text)
				if err != nil {
					return err
				}
				rights = append(rights, r)
			}
			if len(rights) == 0 {
				return exit.Usage("--allow is missing: without a right a token is for nothing; as in: --allow lock,read:ci/")
			}
			token, g, err := addToken(*file, args[0], rights)
			if err != nil {
				return exit.Usage("%w", err)
			}
			if _, err = fmt.Fprintln(cmd.OutOrStdout(), token); err != nil {
				return exit.With(exit.Output, fmt.Errorf("the token %s was made, and could not be written; revoke it: %w", g.id(), err))
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&allow, "allow", nil, "a `right`, such as lock,read:ci/; may be repeated")
	return cmd
}

// parseRight parses a right.
func parseRight(text string) (right, error) {
	words, prefix, _ := strings.Cut(text, ":")
	r := right{Prefix: prefix}
	for word := range strings.SplitSeq(words, ",") {
		v := server.Verb(word)
		if !slices.Contains(server.Verbs, v) {
			return right{}, exit.Usage("--allow: %.40q is no verb: %s", word, verbs())
		}
		r.Verbs = append(r.Verbs, v)
	}
	return r, nil
}

func newList(file *string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the tokens", Long: "Lists the ids of the tokens, their principals and rights.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usage("stile serve token list takes no arguments, only --tokens FILE")
			}
			return named(*file)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, _, err := readGrants(*file)
			if err != nil {
				return exit.Usage("%w", err)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tPRINCIPAL\tRIGHTS")
			for i := range g.Tokens {
				fmt.Fprintf(w, "%s\t%s\t%s\n", g.Tokens[i].id(), g.Tokens[i].Principal, shown(g.Tokens[i].Rights))
			}
			if err := w.Flush(); err != nil {
				return exit.With(exit.Output, err)
			}
			return nil
		},
	}
}

// shown formats rights in the form of --allow, with the prefix in quotes.
func shown(rights []right) string {
	var all []string
	for _, r := range rights {
		words := make([]string, len(r.Verbs))
		for i, v := range r.Verbs {
			words[i] = string(v)
		}
		text := strings.Join(words, ",")
		if r.Prefix != "" {
			text += fmt.Sprintf(":%q", r.Prefix)
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func newRevoke(file *string) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "Revoke a token",
		Long: `Removes a token from the file. Services refuse it at once. Claims that its client holds
last until their leases end.`,
		Args: one("revoke needs one ID, as stile serve token list shows it", file),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := removeToken(*file, args[0]); err != nil {
				return exit.Usage("%w", err)
			}
			return nil
		},
	}
}

// one requires one argument and the file.
func one(what string, file *string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return exit.Usage("stile serve token %s", what)
		}
		return named(*file)
	}
}

func named(file string) error {
	if file == "" {
		return exit.Usage("--tokens is missing: it names the file that stile serve --tokens reads")
	}
	return nil
}
