package pagetest

import (
	"os"
	"path/filepath"
	"testing"
)

func TestVet(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	text := "# Page\n\n## One\n\n```go\nreturn errors.Join(ctx.Err(), locks.Close())\n```\n\n## Two\n\n```go\nthis is not compiled\n```\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	Vet(t, page, "One", `"errors"`)
}
