package earlier

import (
	"os"
	"path/filepath"
	"testing"
)

// root is the root of this tree.
const root = "../../.."

func TestFit(t *testing.T) {
	old := t.TempDir()
	for _, m := range moved {
		if !is(root, m[0]) {
			t.Errorf("%s is no folder of this tree", m[0])
		}
		if is(root, m[1]) {
			t.Errorf("%s is a folder of this tree, so it has not moved", m[1])
		}
		if err := os.MkdirAll(filepath.Join(old, m[1]), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const source = `import ("github.com/stilelock/stile"; "github.com/stilelock/stile/driver"; _ "github.com/stilelock/stile/store/redis/goredis")`
	const want = `import ("github.com/stilelock/stile"; "github.com/stilelock/stile/driver"; _ "github.com/stilelock/stile/redis/goredis")`
	if got := Fit(old, source); got != want {
		t.Errorf("in an earlier tree: %s; want %s", got, want)
	}
	if got := Fit(root, source); got != source {
		t.Errorf("in this tree: %s; want %s", got, source)
	}
	if got := Path(old, "proof/bench/scenarios"); got != "bench/scenarios" {
		t.Errorf("a folder that moved = %s; want bench/scenarios", got)
	}
}
