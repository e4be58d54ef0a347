package notes

import (
	"os"
	"testing"
)

// A note is of one commit, and of nothing beside it.
func TestFolder(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after func(t *testing.T) // between the opening and the writing
		later func(t *testing.T) // before it is read
		want  string
	}{
		{"same commit", none, none, "passed"},
		{"another commit", none, func(t *testing.T) { commit(t, "b") }, ""},
		{"changed before it is read", none, func(t *testing.T) { write(t, "a", "changed") }, ""},
		{"changed before it is written", func(t *testing.T) { write(t, "a", "changed") }, func(t *testing.T) { write(t, "a", "") }, ""},
		{"committed before it is written", func(t *testing.T) { commit(t, "b") }, none, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
			run(t, "init", "--quiet")
			run(t, "config", "user.name", "a")
			run(t, "config", "user.email", "a@example.test")
			write(t, ".gitignore", "/bin/\n")
			commit(t, "a")
			f := open(t)
			tt.after(t)
			if err := f.Write("part", "passed"); err != nil {
				t.Fatal(err)
			}
			tt.later(t)
			if got := open(t).Read("part"); got != tt.want {
				t.Errorf("read %q, want %q", got, tt.want)
			}
		})
	}
}

func none(*testing.T) {}

func open(t *testing.T) *Folder {
	t.Helper()
	f, err := Open("bin/full")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T, name string) {
	t.Helper()
	write(t, name, "")
	run(t, "add", "--all")
	run(t, "commit", "--quiet", "-m", name)
}

func run(t *testing.T, args ...string) {
	t.Helper()
	if out, err := git(args...); err != nil {
		t.Fatal(err, out)
	}
}
