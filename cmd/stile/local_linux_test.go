package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Who names no store is told once, on a terminal, that the lock is one machine's.
func TestDefaultStoreIsLocal(t *testing.T) {
	t.Parallel()
	u := newAccount(t).on(80, 24, "xterm")
	marker := filepath.Join(u.home, "state", "stile", "told-this-machine-only")
	says := func(script string) bool {
		t.Helper()
		s := u.onTerminal("sh", "-c", script+"; echo end.", binary)
		return strings.Contains(s.see("end."), "holds on this machine only")
	}
	for _, script := range []string{
		`"$0" ls`, `"$0" run a -q -- true`, `"$0" run a -- true 2>/dev/null`, `STILE_URL=sqlite:// "$0" run a -- true`,
		`"$0" run a --url sqlite:// -- true`,
	} {
		if says(script) {
			t.Errorf("%s says that the lock is this machine's", script)
		}
		if _, err := os.Stat(marker); !os.IsNotExist(err) {
			t.Errorf("%s: the marker: %v; want none", script, err)
		}
	}
	if script := `"$0" run a -- true`; !says(script) || says(script) {
		t.Error("want it said once")
	}
	if _, err := os.Stat(marker); err != nil {
		t.Error(err)
	}
}
