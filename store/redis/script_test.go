package redis

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// evenIfFull is the first line of a script that a new server runs even if its memory is full.
const evenIfFull = "#!lua flags=allow-oom\n"

var update = flag.Bool("update", false, "write testdata/scripts.sha anew")

// Old and new clients of one server must agree on the scripts, so a review sees each change of them.
func TestScriptsAreThoseAgreedOn(t *testing.T) {
	var got strings.Builder
	names := []string{"enter", "stay", "renew", "leave", "break", "list", "renew_many"}
	for _, server := range []struct {
		kind, evenIfFull string
		sharded          bool
	}{{"old", "", false}, {"new", evenIfFull, false}, {"cluster", evenIfFull, true}} {
		for i, s := range newQueueScripts(server.evenIfFull, server.sharded, usualForm).all() {
			fmt.Fprintf(&got, "%s %s %s\n", s.SHA(), server.kind, names[i])
		}
	}
	golden := filepath.Join("testdata", "scripts.sha")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the scripts have changed:\n%sif that is meant, and old clients can share a queue with new ones: "+
			"go test -run Scripts -update\n%s has\n%s", got.String(), golden, want)
	}
}

// Scripts are constant: all input comes through KEYS and ARGV, and a script uses one key.
func TestScriptsAreConstant(t *testing.T) {
	for _, s := range newQueueScripts(evenIfFull, true, usualForm).all() {
		for _, bad := range []string{"%s", "%d", "%v", "loadstring", "KEYS[2]", "math.random"} {
			if strings.Contains(s.Text(), bad) {
				t.Errorf("a script has %s in it", bad)
			}
		}
		for call := range strings.SplitSeq(s.Text(), "redis.call('") {
			verb, rest, _ := strings.Cut(call, "'")
			switch verb {
			case "SET", "DEL", "TYPE":
				if !strings.HasPrefix(rest, ", key") {
					t.Errorf("%s touches another key than the first: %.40q", verb, rest)
				}
			}
		}
	}
}
