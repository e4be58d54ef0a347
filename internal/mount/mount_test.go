package mount

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestID(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ID(filepath.Join(dir, "missing")); got != "" {
		t.Errorf("the mount of a missing file is %q; want none", got)
	}
	if got, want := ID(file), ID(dir); got != want {
		t.Errorf("a file is on mount %q and its folder on %q", got, want)
	}
	if runtime.GOOS != "linux" {
		return
	}
	if got, other := ID(file), ID("/proc/self"); got == "" || got == other {
		t.Errorf("a file is on mount %q and /proc on %q; want two mounts", got, other)
	}
}
