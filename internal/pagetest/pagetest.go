// Package pagetest compiles the code in a section of a page, for modules that the command does not link. A test of the
// command compiles the other code of the pages.
package pagetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var block = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// Vet runs go vet on the Go code of a section, which ends at the next heading of its kind. Each block is the body of a
// function with a context ctx and a client locks, and its last line returns its error; all blocks share the imports.
func Vet(t *testing.T, page, heading string, imports ...string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := block.FindAllStringSubmatch(section, -1)
	if len(blocks) == 0 {
		t.Fatalf("%s: section %q has no Go", page, heading)
	}
	code := "package page\n\nimport (\n"
	for _, p := range append(imports, `"context"`, `"github.com/stilelock/stile"`) {
		code += "\t" + p + "\n"
	}
	code += ")\n"
	for _, b := range blocks {
		code += fmt.Sprintf("\nfunc _(ctx context.Context, locks *stile.Client) error {\n%s\n}\n", b[1])
	}
	file := filepath.Join(t.TempDir(), "page.go")
	if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput(); err != nil {
		t.Errorf("%s, section %q: %v\n%s", page, heading, err, out)
	}
}
