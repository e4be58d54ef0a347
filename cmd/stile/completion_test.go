package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completed returns what bash would offer for a line, or put in the place of its last word.
func (u *account) completed(line string) []string {
	u.t.Helper()
	script := `source <("$0" completion bash)
COMP_LINE=$1 COMP_POINT=${#1}
_stile "$0"
printf '%s\n' "${COMPREPLY[@]}"`
	cmd := exec.CommandContext(u.t.Context(), "bash", "--norc", "--noprofile", "-c", script, binary, line)
	cmd.Env, cmd.Dir = u.env, u.home
	out, err := cmd.CombinedOutput()
	if err != nil {
		u.t.Fatalf("bash for %q: %v\n%s", line, err, out)
	}
	return strings.Fields(string(out))
}

func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	for _, name := range []string{"backup", "billing", "report:daily"} {
		u.must("lock", name, "--handle", filepath.Join(u.home, "handle-"+name[:2]+name[len(name)-1:]))
	}
	for line, want := range map[string][]string{
		"stile ru":                          {"run"},
		"stile run backup b":                {"billing"}, // a name is taken once
		"stile run backup --ttl 5s bi":      {"billing"},
		"stile show b":                      {"backup", "billing"},
		"stile show report:d":               {"daily"}, // bash breaks words at the colon
		"stile show backup --u":             {"--url"},
		"stile lock x --conflict":           {"--conflict-exit-code"},
		"stile run backup -- stile-no-such": nil,
		"stile completion ":                 {"bash", "fish", "zsh"},
		"stile frob ":                       nil,
	} {
		got := u.completed(line)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q completes to %v; want %v", line, got, want)
		}
	}
	if got := u.completed("stile run backup -- bas"); !slices.Contains(got, "bash") {
		t.Errorf("after -- commands are offered as %v; want bash among them", got)
	}
}

func TestCompletionInOtherShells(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	u.must("lock", "backup")
	write := func(shell string) string {
		file := filepath.Join(u.home, "stile."+shell)
		if err := os.WriteFile(file, []byte(u.must("completion", shell)), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	shell := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Env = slices.Concat(u.env, []string{"PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH")})
		cmd.Dir = u.home
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	shell("zsh", "-f", "-n", write("zsh"))
	if out := shell("fish", "-N", "-c", "source "+write("fish")+"; complete -C 'stile show ba'"); !strings.HasPrefix(out, "backup") {
		t.Errorf("fish offers %q; want backup", out)
	}
	if got := u.run("completion", "csh"); got.code != 64 || got.err != "stile: stile completion needs one SHELL: bash, zsh or fish\n" {
		t.Errorf("completion csh: %+v", got)
	}
}

func TestManual(t *testing.T) {
	t.Parallel()
	u := newAccount(t)
	u.must("man", u.home)
	pages, err := filepath.Glob(filepath.Join(u.home, "*.1"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("pages %v, %v; want one for each command", pages, err)
	}
	for _, page := range pages {
		var complaints bytes.Buffer
		groff := exec.CommandContext(t.Context(), "groff", "-man", "-Tascii", "-P-cbou", "-ww", page)
		groff.Stderr = &complaints
		out, err := groff.Output()
		if err != nil || complaints.Len() > 0 {
			t.Errorf("%s: %v\n%s", page, err, &complaints)
		}
		if name := strings.TrimSuffix(filepath.Base(page), ".1"); name == "stile-run" {
			for _, want := range []string{"--max-hold duration", "Holds the lock NAME", "(default 75)"} {
				if !strings.Contains(strings.Join(strings.Fields(string(out)), " "), want) {
					t.Errorf("%s lacks %q", name, want)
				}
			}
		}
	}
	if got := u.run("man", filepath.Join(u.home, "none")); got.code == 0 || !strings.Contains(got.err, "no such file or directory") {
		t.Errorf("a folder that is not there: %+v", got)
	}
}
