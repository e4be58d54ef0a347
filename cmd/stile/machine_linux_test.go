package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/servertest"
)

// What this machine lacks is not said of the store, whose status a script may take for leave to run without the lock.
func TestMachineLacks(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	server := servertest.Redis(t)
	u.at("redis://" + server.Addr)
	for _, command := range []string{"run a -- true", "show a"} {
		lacks := 0
		for files := 3; files < 24; files++ {
			p := u.launch(u.command("sh", "-c", fmt.Sprintf("ulimit -n %d; exec \"$0\" %s", files, command), binary))
			p.stdin.Close()
			switch got, text := p.wait(), p.stderr.String(); {
			case got == exit.System && strings.Count(text, "\n") == 1:
				lacks++
			case got == 2 && strings.HasPrefix(text, "runtime: "), got == exit.NotFound: // Go, or the loader, lacks one itself
			case got != 0:
				t.Errorf("%s with %d files: status %d, want 0 or %d, and one line: %.200s", command, files, got, exit.System, text)
			}
		}
		if lacks == 0 && command != "show a" { // which needs no more than Go does
			t.Errorf("%s: no number of files was too small; want some", command)
		}
	}
	if got := u.run("man", filepath.Join(u.home, "none")); got.code != exit.Output {
		t.Errorf("manual pages for a folder that is not there: status %d, want %d: %s", got.code, exit.Output, got.err)
	}
}
