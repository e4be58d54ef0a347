//go:build unix

// Flaky finds tests that fail now and then: it runs the tests of packages many times, under the race detector, beside
// processes that keep the processors busy:
//
//	flaky [-runs 10] [-during 5m] [-for 55m] [PACKAGE...]
//
// Each package runs ten times, or as often as runs begin within five minutes. For each a table lists the failed tests, how
// often they failed, and their first message; it is also in a file below bin/flaky/COMMIT. Without packages it takes all
// packages with tests, except packages with a table of this commit; after -for no other package begins. The walks of
// proof/explore and the rules of this repository are left out too: their outcome is the same each time. The status is 1 if
// anything failed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/repo/events"
	"github.com/stilelock/stile/internal/repo/notes"
)

var (
	runs   = flag.Int("runs", 10, "how often a package runs")
	during = flag.Duration("during", 5*time.Minute, "after how long no other run of a package begins")
	limit  = flag.Duration("for", 55*time.Minute, "after how long no other package begins")
	atOnce = flag.Int("parallel", 6, "how many tests of a package run at once")
	spin   = flag.Duration("spin", 0, "be one of the processes that keep a processor busy, for so long")
)

// longest is how long one run may take.
const longest = 12 * time.Minute

func main() {
	flag.Parse()
	if *spin > 0 {
		busy(*spin)
		return
	}
	ok, err := run(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "flaky:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// A pkg is a package with tests.
type pkg struct{ path, dir string }

// file is the name of its table.
func (p *pkg) file() string {
	return strings.ReplaceAll(strings.TrimPrefix(p.path, "github.com/stilelock/"), "/", "-") + ".txt"
}

// run tests packages, the named ones or all, and reports whether none failed.
func run(named []string) (ok bool, err error) {
	pkgs, err := packages(named)
	if err != nil {
		return false, err
	}
	f, err := notes.Open("bin/flaky")
	if err != nil {
		return false, err
	}
	ok = true
	start, left := time.Now(), 0
	for i := range pkgs {
		p := &pkgs[i]
		if len(named) == 0 && f.Read(p.file()) != "" {
			fmt.Printf("%s: its table of this commit is there\n", p.path)
			ok = ok && !strings.Contains(f.Read(p.file()), someFailed)
			continue
		}
		if time.Since(start) >= *limit {
			left++
			continue
		}
		t, err := repeat(p)
		if err != nil {
			return false, err
		}
		ok = ok && len(t.failures()) == 0
		text := t.String()
		fmt.Print(text)
		save := f.Save
		if !f.Same() { // such a table is of no commit
			save = func(name, text string) error { return f.Save("changed-"+name, text) }
		}
		if err := save(p.file(), text); err != nil {
			return false, err
		}
	}
	if left > 0 {
		fmt.Printf("%d packages are left; the same command goes on\n", left)
	}
	fmt.Println("the tables are in", f.Dir)
	return ok, nil
}

// packages lists packages with tests.
func packages(named []string) (pkgs []pkg, err error) {
	args := slices.Clone(named)
	if len(named) == 0 {
		modules, err := output("go", "list", "-f", "{{.Dir}}/...", "-m")
		if err != nil {
			return nil, err
		}
		args = strings.Fields(modules)
	}
	out, err := output("go",
		append([]string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}|{{.Dir}}{{end}}"}, args...)...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), "|")
		if len(named) == 0 && (strings.HasSuffix(path, "/proof/explore") || strings.HasSuffix(path, "/internal/repo")) {
			continue
		}
		pkgs = append(pkgs, pkg{path, dir})
	}
	if len(pkgs) == 0 {
		return nil, fmt.Errorf("no tests in %s", strings.Join(named, " "))
	}
	return pkgs, nil
}

// repeat builds the tests of a package and runs them many times beside a load.
func repeat(p *pkg) (*table, error) {
	t := &table{path: p.path, rows: map[string]*row{}}
	tmp, err := os.MkdirTemp("", "flaky")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	binary := filepath.Join(tmp, "flaky.test")
	build := exec.Command("go", "test", "-race", "-vet=off", "-c", "-o", binary, p.path)
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the tests of %s cannot be built: %w\n%s", p.path, err, out)
	}
	stop, err := load(2*runtime.NumCPU(), *during+longest+time.Minute)
	if err != nil {
		return nil, err
	}
	defer stop()
	t.beside = 2 * runtime.NumCPU()
	start := time.Now()
	for t.runs < *runs && (t.runs == 0 || time.Since(start) < *during) {
		if err := once(t, p, binary); err != nil {
			return nil, err
		}
	}
	t.took = time.Since(start)
	return t, nil
}

// once runs the tests of a package once.
func once(t *table, p *pkg, binary string) error {
	cmd := exec.Command("go", "tool", "test2json", "-t", "-p", p.path, binary, "-test.v=test2json", "-test.paniconexit0",
		"-test.count=1", "-test.timeout="+longest.String(), fmt.Sprintf("-test.parallel=%d", *atOnce))
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "PWD="+p.dir)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	one := newOne()
	if err := events.Read(pipe, one.take, func([]byte) {}); err != nil {
		return err
	}
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return err
	}
	t.add(one, err == nil)
	return nil
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return string(out), err
}
