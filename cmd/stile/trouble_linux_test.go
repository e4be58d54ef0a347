package main

import (
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/exit"
)

// A person gets the address on a line below the error; a script does not.
func TestReferenceToThePage(t *testing.T) {
	t.Parallel()
	u := newAccount(t).on(200, 24, "xterm")
	const args = "ls --url nonsense://h"
	s := u.onTerminal(binary, strings.Fields(args)...)
	s.see(`unknown store "nonsense"`)
	s.see("stile: see https://github.com/stilelock/stile/blob/main/docs/help/troubleshooting.md#the-url-is-refused")
	<-s.done
	for flag, lines := range map[string]int{"": 1, " -q": 1, " -v": 2} {
		got := u.run(strings.Fields(args + flag)...)
		if n := strings.Count(got.err, "\n"); got.code != exit.BadUsage || n != lines || (n == 2) != strings.Contains(got.err, "\nstile: see ") {
			t.Errorf("stile %s%s: status %d, %q; want %d lines", args, flag, got.code, got.err, lines)
		}
	}
	quiet := u.onTerminal("sh", "-c", `"$0" ls --url nonsense://h -q; echo end.`, binary)
	if text := quiet.see("end."); !strings.Contains(text, "unknown store") || strings.Contains(text, "see http") {
		t.Errorf("with --quiet: %q; want the error only", text)
	}
}
