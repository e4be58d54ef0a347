package speech

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The words that the page of troubleshooting has lead to their section, and no words lead elsewhere.
func TestErrorsLeadToTheirSection(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/help/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, section := range regexp.MustCompile(`(?s)\n## .*?\n\n(`+"```text\n.*?```"+`)?`).FindAllString(string(text), -1) {
		title, rest, _ := strings.Cut(strings.TrimPrefix(section, "\n## "), "\n")
		anchor := strings.ToLower(strings.NewReplacer(" ", "-", "'", "", ",", "").Replace(title))
		_, block, _ := strings.Cut(rest, "```text\n")
		for words := range strings.Lines(strings.TrimSuffix(block, "```")) {
			words = strings.TrimSpace(words)
			known[words] = true
			said := `stile: lock "a": ` + strings.ReplaceAll(words, "…", "this or that") + "; the rest"
			if got, want := explained(said), troubleshooting+"#"+anchor; got != want {
				t.Errorf("%q leads to %q; want %q", words, got, want)
			}
		}
	}
	for _, trouble := range troubles {
		if !known[trouble.words] {
			t.Errorf("the page does not have the words %q, which lead to it", trouble.words)
		}
	}
	for _, other := range []string{"", "unknown flag: --x", "held by a", "more unless renewed, held by x for 3s"} {
		if got := explained(other); got != "" {
			t.Errorf("%q leads to %q; want nothing", other, got)
		}
	}
}
