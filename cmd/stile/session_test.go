package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// A session is a block of a document that is marked as console: lines that begin with a dollar sign are typed, and the other
// lines are the output.
var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

// A typed line, and what the document shows after it.
type exchange struct{ line, shows string }

// sessions returns what a document has typed, in order. A page is one session: what one block does, the next one finds.
func sessions(text string) (list []exchange) {
	for _, block := range consoleBlock.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			if typed, ok := strings.CutPrefix(line, "$ "); ok {
				list = append(list, exchange{line: strings.TrimSuffix(typed, "\n")})
			} else if more, ok := strings.CutPrefix(line, "> "); ok {
				list[len(list)-1].line += "\n" + strings.TrimSuffix(more, "\n")
			} else {
				list[len(list)-1].shows += line
			}
		}
	}
	return list
}

// TestSessionsInDocuments types the commands in the documents, in a new account without a server, and compares the output.
// Numbers, times, folders and the name of the machine differ from run to run.
func TestSessionsInDocuments(t *testing.T) {
	texts := documents(t)
	n := 0
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		list := sessions(texts[path])
		if len(list) == 0 {
			continue
		}
		n++
		t.Run(strings.TrimPrefix(path, "../../"), func(t *testing.T) {
			t.Parallel()
			printed := play(t, list)
			for i, e := range list {
				if got, want := plain(printed[i]), plain(e.shows); got != want {
					t.Errorf("$ %s\nprints\n%sand the page has\n%s", e.line, printed[i], e.shows)
				}
			}
		})
	}
	if n < 2 {
		t.Errorf("%d documents have sessions; want README.md and others", n)
	}
}

// play types the lines into one shell, and returns what each prints on stdout and stderr.
func play(t *testing.T, list []exchange) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	home := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(home, "stile")); err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	const mark = "-- end of what line %d prints --"
	for i, e := range list {
		fmt.Fprintf(&script, "%s\n", e.line)
		if job := background.FindStringSubmatch(e.line); job != nil {
			// Whoever types is slower than the job.
			fmt.Fprintf(&script, "until stile show %s --json | grep -q '\"%s\"'; do :; done\n", job[1], "holds")
		}
		fmt.Fprintf(&script, "echo '"+mark+"'\n", i)
	}
	typed := strings.ReplaceAll(script.String(), pagePort, strconv.Itoa(servertest.Port(t)))
	cmd := exec.CommandContext(ctx, "bash", "-c", "exec 2>&1\ntrap 'kill $(jobs -p) 2>/dev/null; true' EXIT\n"+typed)
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "PATH=" + home + ":" + os.Getenv("PATH"), "TMPDIR=" + home}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	printed := make([]string, len(list))
	i := 0
	for lines := bufio.NewScanner(out); i < len(list) && lines.Scan(); {
		if lines.Text() == fmt.Sprintf(mark, i) {
			i++
			continue
		}
		printed[i] += strings.ReplaceAll(lines.Text(), home, "~") + "\n"
	}
	if err := cmd.Wait(); err != nil || i < len(list) {
		t.Fatalf("%d of %d lines were typed, %v", i, len(list), err)
	}
	return printed
}

// pagePort is where the pages start a server. A session has it on a port of its own.
const pagePort = "6390"

var (
	plainBlock = regexp.MustCompile("(?ms)^```\n(visit.*?)^```$")
	background = regexp.MustCompile(`^stile run (\S+) .*&$`)

	// What differs from run to run.
	changing = []struct {
		what *regexp.Regexp
		as   string
	}{
		{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "TIME"},
		{regexp.MustCompile(`-[0-9a-f]{16}-[0-9a-f]{12}\.handle`), "-FILE"},
		{regexp.MustCompile(`_[0-9A-F]{16}=`), "_NAME="},
		{regexp.MustCompile(`\b\d+(\.\d+)?(µs|ms|s)\b`), "DURATION"},
		{regexp.MustCompile(`\d+`), "N"},
		{regexp.MustCompile(`(?m)[ \t]+$`), ""},
		{regexp.MustCompile(`[ \t]+`), " "},
	}
)

// plain returns a text without what differs from run to run.
func plain(text string) string {
	if host, err := os.Hostname(); err == nil {
		text = regexp.MustCompile(`\b`+regexp.QuoteMeta(host)+`\b`).ReplaceAllString(text, "web1")
	}
	if who, err := user.Current(); err == nil {
		text = strings.ReplaceAll(text, `"`+who.Username+" on ", `"ann on `)
	}
	for _, c := range changing {
		text = c.what.ReplaceAllString(text, c.as)
	}
	return text
}

// TestTutorialProgram builds the program of the tutorial, has four of it run at once, and compares what they print.
func TestTutorialProgram(t *testing.T) {
	t.Parallel()
	_, text, _ := strings.Cut(documents(t)["../../docs/start/tutorial.md"], "Save it as `tutorial/main.go`")
	program, printed := goBlock.FindStringSubmatch(text), plainBlock.FindStringSubmatch(text)
	if program == nil || printed == nil {
		t.Fatal("the tutorial has no program, or does not say what it prints")
	}
	// The page builds after make build. With other flags, all packages of the stores would be compiled again.
	const flags = "CGO_ENABLED=0 go build -trimpath "
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil || !strings.Contains(string(makefile), "\nBUILD = "+flags) || !strings.Contains(text, "\n"+flags) {
		t.Errorf("the tutorial and make build do not both begin with %q, %v", flags, err)
	}
	dir := t.TempDir()
	source, built := filepath.Join(dir, "main.go"), filepath.Join(dir, "visit")
	if err := os.WriteFile(source, []byte(program[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", built, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const four = `for i in 1 2 3 4; do "$0" "sqlite://$1/locks.db" "$1/visits" & done; wait`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", four, built, dir)
	got, err := cmd.CombinedOutput()
	if err != nil || string(got) != printed[1] {
		t.Errorf("the program prints %v\n%swant\n%s", err, got, printed[1])
	}
}

// TestSessions sees that a session is read as it was written, and that what may not differ is not made alike.
func TestSessions(t *testing.T) {
	got := sessions("a\n```console\n$ one\n1\n2\n$ two &&\n> three\n```\n```sh\n$ not\n```\n```console\n$ four\n```\n")
	want := []exchange{{"one", "1\n2\n"}, {"two &&\nthree", ""}, {"four", ""}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if a, b := plain("a lock, held for 3s"), plain("a lock, free for 3s"); a == b {
		t.Errorf("%q is taken for %q", a, b)
	}
	if a, b := plain("token=17  since 3.5s"), plain("token=4 since 900ms"); a != b {
		t.Errorf("%q is not %q", a, b)
	}
}
