package python

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// maxLines is the most lines of a file of the client, which is read in one sitting.
const maxLines = 500

// The client's own tests pass, which need no server. Reading its files makes Go run this test again after each change.
func TestClient(t *testing.T) {
	folder, err := Folder()
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, dir := range []string{folder, filepath.Join(folder, "..", "vectors")} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".py") && !strings.HasSuffix(path, ".json") {
				return err
			}
			text, err := os.ReadFile(path)
			if n := bytes.Count(text, []byte("\n")); filepath.Base(filepath.Dir(path)) == "stile" && n > maxLines {
				t.Errorf("%s has %d lines; the limit is %d", path, n, maxLines)
			}
			files++
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 4 {
		t.Fatalf("%d files; the test would prove nothing", files)
	}
	cmd, err := Command(t.Context(), "-m", "unittest", "discover", "-s", "tests")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
