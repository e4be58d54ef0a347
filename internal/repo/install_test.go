package repo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestInstall runs install.sh on a system that has nothing but a shell and a server, so no package manager either.
func TestInstall(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	server := filepath.Join(dir, "server")
	if err := os.WriteFile(server, []byte("#!"+bash+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		needs []string
		want  string // what it says; it fails if it says something
	}{
		{"nothing", nil, ""},
		{"command", []string{"server:a"}, ""},
		{"file", []string{server + ":a"}, ""},
		{"missing", []string{"server:a", "other:b", server + "/x:c"},
			"missing: other " + server + "/x; install them with the package manager " +
				"of this system (on Debian the packages are: b c)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), bash, append([]string{"install.sh"}, tt.needs...)...)
			cmd.Env = []string{"PATH=" + dir}
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSpace(string(out)); got != tt.want || (err == nil) != (tt.want == "") {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}
