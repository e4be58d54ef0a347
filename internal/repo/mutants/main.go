// Command mutants sees that what is known to be wrong is found: each patch of internal/engine/explore/testdata/mutants is
// one mistake. It builds the explorer with that patch and walks until something is found, or, if the patch's head says
// so, runs the one test that is there for it.
//
//	go run ./internal/repo/mutants [-some 12] [-for 60s] [-matrix] [NAME...]
//
// Every patch must apply and compile. With -some, so many are looked for, which the commit's hash chooses; without, all
// are. It fails if one is not found. The head of a patch says what is wrong in words, and then may have the lines
//
//	stands for: M1, defect 3
//	found by: test ./internal/claims TestName/part of it
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	some  = flag.Int("some", 0, "how many are looked for; 0 means all")
	limit = flag.Duration("for", time.Minute, "how long one may take to be found")
	set   = flag.String("set", "small", "the worlds that are walked")
	jobs  = flag.Int("jobs", min(2, runtime.NumCPU()), "how many are looked for at once")
	table = flag.Bool("matrix", false, "print what finds each mutant beside its own test, as rows of docs/explain/mutants.md")
)

func main() {
	flag.Parse()
	if err := run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	patches  = "internal/engine/explore/testdata/mutants"
	explorer = "./internal/engine/explore/cmd"
)

func run(names []string) error {
	top, err := output("git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if err := os.Chdir(top); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(patches, "*.patch"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no mutants in %s: %w", patches, err)
	}
	sought, err := choose(files)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if len(names) > 0 {
		files = slices.DeleteFunc(files, func(file string) bool { return !slices.Contains(names, nameOf(file)) })
		sought = files
	}
	begin := time.Now()
	failed := all(top, dir, files, sought)
	if len(failed) > 0 {
		return fmt.Errorf("not found, or broken: %s", strings.Join(failed, ", "))
	}
	fmt.Printf("%d mutants apply and compile, %d were looked for and found, in %.0f s\n", len(files), len(sought),
		time.Since(begin).Seconds())
	return nil
}

func nameOf(file string) string { return strings.TrimSuffix(filepath.Base(file), ".patch") }

// A finding is what came of one mutant.
type finding struct {
	at          string // the world or the test
	transitions string
	seconds     float64
	seeds       int    // how many of some have found it
	as          string // what was said of it
	err         error
}

// all deals with the mutants, a few at once, prints what came of each in their order, and returns those that failed.
func all(top, dir string, files, sought []string) (failed []string) {
	if !*table {
		fmt.Printf("%-32s %-17s %-50s %11s %7s  %s\n", "mutant", "stands for", "found by", "transitions", "seconds", "as")
	}
	type done struct {
		mutant
		finding
		by found
	}
	results := make([]chan done, len(files))
	room := make(chan struct{}, max(1, *jobs))
	for i := range results {
		results[i] = make(chan done, 1)
	}
	go func() {
		for i, file := range files {
			room <- struct{}{}
			go func() {
				m := mutant{name: nameOf(file), patch: filepath.Join(top, file), dir: filepath.Join(dir, nameOf(file))}
				var f finding
				var by found
				switch f.err = m.prepare(top); {
				case f.err != nil || !slices.Contains(sought, file):
				case *table:
					by = m.matrix()
				default:
					f = m.find()
				}
				<-room
				results[i] <- done{m, f, by}
			}()
		}
	}()
	for _, ch := range results {
		switch d := <-ch; {
		case d.err != nil:
			failed = append(failed, d.name)
			fmt.Printf("%-32s %-17s %v\n", d.name, d.numbers, d.err)
		case d.by != nil:
			fmt.Println(d.by.row(&d.mutant))
			if len(d.by) == 0 {
				failed = append(failed, d.name)
			}
		case d.at != "":
			fmt.Printf("%-32s %-17s %-50s %11s %7.1f  %s\n", d.name, d.numbers, d.at, d.transitions, d.seconds, d.as)
		}
	}
	return failed
}

// choose returns the patches that are looked for.
func choose(files []string) ([]string, error) {
	if *some == 0 || *some >= len(files) {
		return files, nil
	}
	hash, err := output("git", "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(hash[:8], 16, 64)
	if err != nil {
		return nil, err
	}
	from := int(n % uint64(len(files)))
	return slices.Concat(files[from:], files[:from])[:*some], nil
}

type mutant struct {
	name, patch, dir string
	numbers          string   // that it stands for
	files            []string // that it changes
	pkg, test        string   // that finds it; empty if the explorer does
	overlay          string
}

var (
	changed = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)`)
	stands  = regexp.MustCompile(`(?m)^stands for: (.*)`)
	byTest  = regexp.MustCompile(`(?m)^found by: test (\S+) (.*)`)
)

// prepare makes the mutant's files, and sees that the packages compile that it changes.
func (m *mutant) prepare(top string) error {
	text, err := os.ReadFile(m.patch)
	if err != nil {
		return err
	}
	if found := stands.FindSubmatch(text); found != nil {
		m.numbers = string(found[1])
	}
	if found := byTest.FindSubmatch(text); found != nil {
		m.pkg, m.test = string(found[1]), string(found[2])
	}
	replaced := map[string]string{}
	build := []string{"build", "-overlay", filepath.Join(m.dir, "overlay.json")}
	for _, found := range changed.FindAllSubmatch(text, -1) {
		name := string(found[1])
		m.files = append(m.files, name)
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		to := filepath.Join(m.dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, source, 0o644); err != nil {
			return err
		}
		replaced[filepath.Join(top, name)] = to
		if pkg := "./" + path.Dir(name); !slices.Contains(build, pkg) {
			build = append(build, pkg)
		}
	}
	apply := exec.Command("git", "apply", m.patch)
	apply.Dir = m.dir
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(filepath.Dir(m.dir)))
	if out, err := apply.CombinedOutput(); err != nil {
		return fmt.Errorf("it does not apply: %w: %s", err, out)
	}
	data, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return err
	}
	m.overlay = filepath.Join(m.dir, "overlay.json")
	if err := os.WriteFile(m.overlay, data, 0o644); err != nil {
		return err
	}
	if out, err := output("go", build...); err != nil {
		return fmt.Errorf("it does not compile: %w: %s", err, out)
	}
	return nil
}

func (m *mutant) find() finding {
	if m.test != "" {
		return m.try()
	}
	return m.walk()
}

var (
	where = regexp.MustCompile(`violation in world "([^"]*)", after (\d+) transitions`)
	what  = regexp.MustCompile(`VIOLATION: (.*)`)
	broke = regexp.MustCompile(`(?m)^(?:panic|fatal error): (.*)`)
	said  = regexp.MustCompile(`(?m)^\s+\w+\.go:\d+: (.*)`)
	fails = regexp.MustCompile(`(?m)^\s*--- FAIL: `)
)

// walk has the explorer find the mutant.
func (m *mutant) walk() (f finding) {
	binary := filepath.Join(m.dir, "explore")
	if out, err := output("go", "build", "-overlay", m.overlay, "-o", binary, explorer); err != nil {
		f.err = fmt.Errorf("it does not build: %w: %s", err, out)
		return f
	}
	start := time.Now()
	out, err := exec.Command(binary, "-set", *set, "-for", limit.String()).CombinedOutput()
	os.Remove(binary)
	f.seconds = time.Since(start).Seconds()
	var failure *exec.ExitError
	at, as := where.FindSubmatch(out), what.FindSubmatch(out)
	switch {
	case at != nil && as != nil:
		f.at, f.transitions, f.as = "world "+string(at[1]), string(at[2]), string(as[1])
	case broke.Match(out):
		f.at, f.as = "worlds", "panic: "+string(broke.FindSubmatch(out)[1])
	case errors.As(err, &failure):
		f.err = fmt.Errorf("the explorer failed: %s", out)
	default:
		f.err = fmt.Errorf("not found in %.1f s", f.seconds)
	}
	return f
}

// try has a test find the mutant.
func (m *mutant) try() (f finding) {
	binary := filepath.Join(m.dir, "package.test")
	if out, err := output("go", "test", "-c", "-vet=off", "-overlay", m.overlay, "-o", binary, m.pkg); err != nil {
		f.err = fmt.Errorf("its test does not build: %w: %s", err, out)
		return f
	}
	parts := strings.Split(m.test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	cmd := exec.Command(binary, "-test.run", strings.Join(parts, "/"), "-test.timeout", limit.String())
	cmd.Dir = m.pkg
	start := time.Now()
	out, err := cmd.CombinedOutput()
	os.Remove(binary)
	f.seconds = time.Since(start).Seconds()
	if err == nil {
		f.err = fmt.Errorf("%s passes in %.1f s: %s", m.test, f.seconds, out)
		return f
	}
	if bytes.Contains(out, []byte("test timed out")) {
		f.err = fmt.Errorf("%s has not found it in %.1f s", m.test, f.seconds)
		return f
	}
	f.at = m.test
	switch as := said.FindSubmatch(out); {
	case as != nil:
		f.as = string(as[1])
	case broke.Match(out):
		f.as = "panic: " + string(broke.FindSubmatch(out)[1])
	case !fails.Match(out):
		f.err = fmt.Errorf("%s did not run: %w: %s", m.test, err, out)
	}
	return f
}

func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
