package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stilelock/stile/cmd/stile/internal/store"
)

const casesFile = "testdata/cases.txt"

// A shellCase is one of testdata/cases.txt.
type shellCase struct {
	line   int
	script string
	answer string // the status, the text on stderr, and the remaining claims
}

func readCases(t *testing.T) (cases []*shellCase, text string) {
	t.Helper()
	b, err := os.ReadFile(casesFile)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		script, found := strings.CutPrefix(line, "$ ")
		switch {
		case found:
			cases = append(cases, &shellCase{line: n, script: strings.TrimSpace(script)})
		case strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#"):
			cases[len(cases)-1].answer += line
		}
	}
	return cases, string(b)
}

// TestCases gives a shell what people type by mistake, and sees what they are told, and what it left behind.
func TestCases(t *testing.T) {
	cases, text := readCases(t)
	got := make([]string, len(cases))
	t.Run("all", func(t *testing.T) {
		for i, c := range cases {
			t.Run(fmt.Sprintf("line%d", c.line), func(t *testing.T) {
				t.Parallel()
				got[i] = shellAnswer(t, c.script)
				if !*updateDocs && got[i] != c.answer {
					t.Errorf("$ %s\nis answered\n%sand the file has\n%s", c.script, got[i], c.answer)
				}
			})
		}
	})
	if len(cases) < 170 {
		t.Errorf("there are %d cases; want 170 and more", len(cases))
	}
	if *updateDocs && !t.Failed() {
		writeCases(t, cases, got, text)
	}
}

func writeCases(t *testing.T, cases []*shellCase, got []string, text string) {
	t.Helper()
	var b strings.Builder
	i := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "$ ") {
			b.WriteString(line + got[i])
			i++
		} else if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	if err := os.WriteFile(casesFile, []byte(b.String()), 0o600); err != nil || i != len(cases) {
		t.Fatalf("%d of %d cases: %v", i, len(cases), err)
	}
}

// What differs from run to run, and what stands for it in the file.
var differing = []struct {
	what *regexp.Regexp
	is   string
}{
	{regexp.MustCompile(`\bpid \d+`), "pid PID"},
	{regexp.MustCompile(`\(process \d+\)`), "(process PID)"},
	{regexp.MustCompile(`stile on [^ ,]+`), "stile on HOST"},
	{regexp.MustCompile(`\b\d{18,}\b`), "TOKEN"},
	{regexp.MustCompile(`for [\d.m]+s more`), "for TIME more"},
	{regexp.MustCompile(`renewed \d+s ago`), "renewed TIME ago"},
	{regexp.MustCompile(`take \d+ bytes`), "take SIZE bytes"},
	{regexp.MustCompile(`tried for [\d.]+(s|ms)`), "tried for TIME"},
	{regexp.MustCompile(`\bat \d{4}-\d\d-\d\dT[\d:]+Z`), "at TIME"},
	{regexp.MustCompile(`-[0-9a-f]{12}\.handle`), "-ID.handle"},
}

// shellAnswer runs a script in an account of its own.
func shellAnswer(t *testing.T, script string) string {
	t.Helper()
	u := newAccount(t)
	bin, work := filepath.Join(u.home, "bin"), filepath.Join(u.home, "work")
	for _, dir := range []string{bin, work} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(binary, filepath.Join(bin, "stile")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = work, slices.Concat(u.env, []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "LC_ALL=C"})
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := u.launch(cmd)
	p.stdin.Close()
	if _, err := io.Copy(io.Discard, p.out); err != nil {
		t.Fatal(err)
	}
	code := p.wait()
	lines := strings.ReplaceAll(strings.TrimSpace(p.stderr.String()), u.home, "$HOME")
	for _, d := range differing {
		lines = d.what.ReplaceAllString(lines, d.is)
	}
	said := strings.TrimSpace(fmt.Sprint(code, " ", strings.ReplaceAll(lines, "\n", "\n   "))) + "\n"
	if names := remaining(u); len(names) > 0 {
		said += "remains: " + strings.Join(names, ", ") + "\n"
	}
	return said
}

// remaining returns the names in use in the account's default store.
func remaining(u *account) (names []string) {
	u.t.Helper()
	var list []struct{ Name string }
	if err := json.Unmarshal([]byte(u.must("ls", "--json")), &list); err != nil {
		u.t.Fatal(err)
	}
	for _, q := range list {
		names = append(names, q.Name)
	}
	return names
}

// TestCasesAreComplete wants a case for each command, flag, scheme, parameter of a URL and variable, and for stdout closed
// and full.
func TestCasesAreComplete(t *testing.T) {
	cases, _ := readCases(t)
	has := func(pattern string) bool {
		re := regexp.MustCompile(pattern)
		return slices.ContainsFunc(cases, func(c *shellCase) bool { return re.MatchString(c.script) })
	}
	want := func(what, pattern string) {
		t.Helper()
		if !has(pattern) {
			t.Errorf("there is no case for %s: none matches %s", what, pattern)
		}
	}
	root := reference()
	for _, c := range root.Commands() {
		if c.Hidden {
			continue
		}
		want("the command", `stile `+c.Name()+`\b`)
		visit := func(c *cobra.Command) {
			c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
				if f.Name != "help" {
					want("the flag", `stile .*\b`+c.Name()+`\b.*( --`+f.Name+`\b| -`+f.Shorthand+` )`)
				}
			})
		}
		visit(c)
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	for _, flag := range []string{"url", "quiet", "verbose", "version", "help"} {
		want("the flag", ` --`+flag+`\b`)
	}
	for _, row := range urlRows {
		for _, scheme := range row.schemes {
			want("the scheme", `\b`+regexp.QuoteMeta(scheme)+`://`)
		}
	}
	for _, p := range parameters {
		want("the parameter", `[?&]`+p.name+`=`)
	}
	for _, name := range []string{
		store.URLVariable, store.URLFileVariable, "STILE_HELD", "STILE_GRANT_\\w+", "STILE_NAME", "STILE_TOKEN", "STILE_DEADLINE", "STILE_VALUE",
		"STILE_NAME_1", "STILE_TOKEN_1", "HOME", "XDG_STATE_HOME",
	} {
		want("the variable", `(^|[ ;])`+name+`=`)
	}
	for _, output := range []string{`>&-`, `2>&-`, `>/dev/full`, `2>/dev/full`, `<&-`} {
		want("the output", `\s`+output)
	}
}
