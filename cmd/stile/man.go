package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stilelock/stile/internal/exit"
)

// newMan writes the manual from the text of --help, so that the two cannot differ, and no tool has to be installed.
func newMan(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write the manual pages into a directory", Hidden: true, DisableFlagsInUseLine: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usage("stile man needs one DIRECTORY; as in: stile man /usr/local/share/man/man1")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			return writePages(args[0], root)
		},
	}
}

func writePages(directory string, cmd *cobra.Command) error {
	if cmd.Hidden {
		return nil
	}
	var text strings.Builder
	writePage(&text, cmd)
	if err := os.WriteFile(filepath.Join(directory, pageName(cmd)+".1"), []byte(text.String()), 0o644); err != nil {
		return exit.With(exit.Output, err)
	}
	for _, c := range cmd.Commands() {
		if err := writePages(directory, c); err != nil {
			return err
		}
	}
	return nil
}

// pageName is stile-run for stile run.
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func writePage(w io.Writer, cmd *cobra.Command) {
	name := pageName(cmd)
	fmt.Fprintf(w, ".TH %s 1\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name), roff(name), roff(lower(cmd.Short)))
	fmt.Fprintf(w, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	fmt.Fprint(w, ".SH DESCRIPTION\n")
	writeText(w, cmd.Long)
	if cmd.HasExample() {
		fmt.Fprintf(w, ".SH EXAMPLES\n.nf\n%s\n.fi\n", lines(cmd.Example))
	}
	if cmd.HasSubCommands() {
		fmt.Fprint(w, ".SH COMMANDS\n")
		for _, c := range cmd.Commands() {
			if !c.Hidden {
				fmt.Fprintf(w, ".TP\n.BR %s (1)\n%s\n", roff(pageName(c)), roff(c.Short))
			}
		}
	}
	writeFlags(w, "OPTIONS", cmd.LocalFlags())
	writeFlags(w, "OPTIONS OF ALL COMMANDS", cmd.InheritedFlags())
	fmt.Fprint(w, ".SH ENVIRONMENT\n.TP\n.B STILE_URL\nthe store, unless \\-\\-url names one\n"+
		".TP\n.B STILE_URL_FILE\na file with the URL, unless STILE_URL is set\n")
	if cmd.HasParent() {
		fmt.Fprintf(w, ".SH SEE ALSO\n.BR %s (1)\n", roff(cmd.Root().Name()))
	}
}

func writeFlags(w io.Writer, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(w, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		word, text := describe(f)
		fmt.Fprintf(w, ".TP\n.B %s\n%s\n", roff(word), roff(text))
	})
}

// describe returns a flag with the kind of its value, and its text with the default.
func describe(f *pflag.Flag) (word, text string) {
	word = "--" + f.Name
	if f.Shorthand != "" {
		word = "-" + f.Shorthand + ", " + word
	}
	kind, text := pflag.UnquoteUsage(f)
	kinds := []string{"int", "duration"}
	if slices.Contains(kinds, f.Value.Type()) && !strings.Contains(text, "(default") &&
		!slices.Contains([]string{"", "0", "0s"}, f.DefValue) {
		text += " (default " + f.DefValue + ")"
	}
	return strings.TrimSpace(word + " " + kind), text
}

// writeText writes paragraphs. It leaves indented ones, such as lists, as they are.
func writeText(w io.Writer, text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if strings.Contains("\n"+paragraph, "\n  ") {
			fmt.Fprintf(w, ".PP\n.nf\n%s\n.fi\n", lines(paragraph))
		} else {
			fmt.Fprintf(w, ".PP\n%s\n", lines(paragraph))
		}
	}
}

func lines(text string) string {
	all := strings.Split(strings.Trim(text, "\n"), "\n")
	for i := range all {
		all[i] = roff(all[i])
	}
	return strings.Join(all, "\n")
}

// roff writes text so that the formatter reads none of it as a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...", "’", "'").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

func lower(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToLower(text[:1]) + text[1:]
}
