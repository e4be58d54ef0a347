package main

import (
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stilelock/stile/cmd/stile/internal/elect"
	"github.com/stilelock/stile/cmd/stile/internal/inspect"
	"github.com/stilelock/stile/internal/exit"
)

// Each command has a page that begins with its help. The index of the commands links each page, and has all statuses.

const commandIndex = "../../docs/reference/command.md"

// unpaged are commands that the index explains in a sentence.
var unpaged = []string{"completion", "help", "version"}

// reference returns the command with the commands that its library adds when it runs.
func reference() *cobra.Command {
	root := newRoot()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

func TestCommandPages(t *testing.T) {
	texts := documents(t)
	var pages []string
	for _, c := range reference().Commands() {
		if c.Hidden || slices.Contains(unpaged, c.Name()) {
			continue
		}
		page := "../../docs/command/" + c.Name() + ".md"
		pages = append(pages, page)
		if texts[page] == "" {
			t.Errorf("%s is not there", page)
			continue
		}
		if !strings.Contains(texts[commandIndex], "](../command/"+c.Name()+".md)") {
			t.Errorf("%s does not link %s", commandIndex, page)
		}
		if !c.HasAvailableSubCommands() || c.HasAvailableLocalFlags() {
			holds(t, page, "help", helpPage(c))
		}
		for _, c := range slices.DeleteFunc(c.Commands(), func(c *cobra.Command) bool { return c.Hidden || c.HasAvailableSubCommands() }) {
			holds(t, page, "help of "+c.Name(), helpPage(c))
		}
	}
	for path := range texts {
		if filepath.Dir(path) == "../../docs/command" && !slices.Contains(pages, path) {
			t.Errorf("%s is the page of no command", path)
		}
	}
}

// TestCommandReference finds statuses and keys of JSON that no page explains.
func TestCommandReference(t *testing.T) {
	texts := documents(t)
	for _, code := range []int{exit.Failed, exit.BadUsage, exit.Store, exit.System, exit.Output, exit.Held, exit.Lost, exit.NotExecutable, exit.NotFound} {
		if !strings.Contains(texts[commandIndex], fmt.Sprintf("| %d |", code)) {
			t.Errorf("exit status %d is missing", code)
		}
	}
	for page, view := range map[string][]reflect.Type{
		"show": {reflect.TypeFor[inspect.QueueView](), reflect.TypeFor[inspect.ClaimView]()}, "elect": {reflect.TypeFor[elect.LeaderView]()},
	} {
		rows := regexp.MustCompile("(?m)^\\| (`.*?`) \\|").FindAllString(texts["../../docs/command/"+page+".md"]+texts["../../docs/command/watch.md"], -1)
		for _, view := range view {
			for f := range view.Fields() {
				key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if !strings.Contains(strings.Join(rows, ""), "`"+key+"`") {
					t.Errorf("docs/command/%s.md: JSON key %q is missing", page, key)
				}
			}
		}
	}
}

var (
	indented  = regexp.MustCompile(`(?m)^  `)
	literal   = regexp.MustCompile(`(^|[\s(])(--?[a-zA-Z][\w-]*\b|STILE_\w+|stile (?:run|elect|lock|renew|unlock|ls|show|watch|top|wait|cron)\b)`)
	byDefault = regexp.MustCompile(` \(default:? (.*)\)$`)
)

// helpPage writes the help of a command as Markdown.
func helpPage(c *cobra.Command) string {
	var w strings.Builder
	fmt.Fprintf(&w, "```text\n%s\n```\n\n", c.UseLine())
	writeLong(&w, c.Long)
	if c.HasExample() {
		fmt.Fprintf(&w, "```sh\n%s\n```\n\n", indented.ReplaceAllString(c.Example, ""))
	}
	w.WriteString("| flag | means | if left out |\n| --- | --- | --- |\n")
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		word, text := describe(f)
		otherwise := ""
		if m := byDefault.FindStringSubmatch(text); m != nil {
			text, otherwise = strings.TrimSuffix(text, m[0]), m[1]
		}
		fmt.Fprintf(&w, "| `%s` | %s | %s |\n", word, literal.ReplaceAllString(text, "$1`$2`"), literal.ReplaceAllString(otherwise, "$1`$2`"))
	})
	return w.String()
}

// writeLong writes paragraphs; indented ones, such as lists, are blocks of text.
func writeLong(w *strings.Builder, long string) {
	open := false
	for p := range strings.SplitSeq(strings.TrimSpace(long), "\n\n") {
		switch listed := indented.MatchString(p); {
		case listed && !open:
			w.WriteString("```text\n")
		case listed:
			w.WriteString("\n")
		case open:
			w.WriteString("```\n\n")
		}
		if open = indented.MatchString(p); open {
			fmt.Fprintln(w, indented.ReplaceAllString(strings.TrimPrefix(p, "\n"), ""))
		} else {
			fmt.Fprint(w, literal.ReplaceAllString(p, "$1`$2`"), "\n\n")
		}
	}
	if open {
		w.WriteString("```\n\n")
	}
}
