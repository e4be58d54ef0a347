package redis

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/scripts.sha anew")

// The scripts are what old and new clients of one server must agree on, so a change of them is seen in review.
func TestScriptsAreThoseAgreedOn(t *testing.T) {
	var got strings.Builder
	names := []string{"enter", "stay", "renew", "leave", "break", "list"}
	for _, server := range []struct {
		kind              string
		allowOOM, sharded bool
	}{{"old", false, false}, {"new", true, false}, {"cluster", true, true}} {
		for i, s := range newScripts(server.allowOOM, server.sharded).all() {
			fmt.Fprintf(&got, "%s %s %s\n", s.sha, server.kind, names[i])
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
		t.Errorf("the scripts have changed:\n%sif that is meant, and old clients can share a queue with new ones: go test -run Scripts -update\n%s has\n%s",
			got.String(), golden, want)
	}
}

// Scripts are constant: what comes from outside comes through KEYS and ARGV, and one key is touched.
func TestScriptsAreConstant(t *testing.T) {
	for _, s := range newScripts(true, true).all() {
		for _, bad := range []string{"%s", "%d", "%v", "loadstring", "KEYS[2]", "math.random"} {
			if strings.Contains(s.text, bad) {
				t.Errorf("a script has %s in it", bad)
			}
		}
		for call := range strings.SplitSeq(s.text, "redis.call('") {
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
