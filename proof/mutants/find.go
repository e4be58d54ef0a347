package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A finding is what came of one mutant.
type finding struct {
	at          string // the world or the test
	transitions string
	seconds     float64
	seeds       int    // how many of some have found it
	as          string // what was said of it
	err         error
}

// find looks for the mutant in the first way that its head names, or by exploration if the head names none.
func (m *mutant) find() finding {
	if len(m.ways) > 0 {
		return m.follow(m.ways[0])
	}
	return m.walk()
}

// follow looks for the mutant in one way.
func (m *mutant) follow(w way) finding {
	if w.kind == "chaos" {
		return m.disturb(w.where)
	}
	return m.try(w)
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

// commandTest is the building of the one test of the command's cases that all mutants share.
var commandTest sync.Once

// try has a test find the mutant.
func (m *mutant) try(w way) (f finding) {
	binary, overlay, before := filepath.Join(m.dir, "package.test"), m.overlay, &sync.Once{}
	if w.kind == "command" { // its cases run the command, which their test builds with the mistake
		binary, overlay, before = filepath.Join(filepath.Dir(m.dir), "command.test"), "", &commandTest
	}
	before.Do(func() {
		if out, err := output("go", "test", "-c", "-vet=off", "-overlay="+overlay, "-o", binary, w.where); err != nil {
			f.err = fmt.Errorf("its test does not build: %w: %s", err, out)
		}
	})
	if f.err != nil {
		return f
	}
	parts := strings.Split(w.test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	end := *limit + time.Minute // a test gives up what it waits for in vain after a minute
	cmd := exec.Command(binary, "-test.run", strings.Join(parts, "/"), "-test.timeout", end.String())
	cmd.Dir = w.where
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+m.overlay)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if w.kind != "command" {
		os.Remove(binary)
	}
	f.seconds = time.Since(start).Seconds()
	if err == nil {
		f.err = fmt.Errorf("%s passes in %.1f s: %s", w.test, f.seconds, out)
		return f
	}
	if bytes.Contains(out, []byte("test timed out")) {
		f.err = fmt.Errorf("%s has not found it in %.1f s", w.test, f.seconds)
		return f
	}
	if f.at = w.test; w.kind == "command" {
		f.at = path.Base(cases)
	}
	switch as := said.FindSubmatch(out); {
	case as != nil:
		f.as = string(as[1])
	case broke.Match(out):
		f.as = "panic: " + string(broke.FindSubmatch(out)[1])
	case !fails.Match(out):
		f.err = fmt.Errorf("%s did not run: %w: %s", w.test, err, out)
	}
	return f
}

// seeds are what the faults of a run are drawn from: with more than one, a mutant is not found by one lucky schedule.
const seeds = 2

var (
	counted = regexp.MustCompile(`(?m) findings=(\d+)$`)
	wrong   = regexp.MustCompile(`(?m)^  WRONG: (.*)`)
)

// disturb has processes lock and unlock under faults, with one seed after the other, each for as long as a mutant may take.
func (m *mutant) disturb(store string) (f finding) {
	binary := filepath.Join(m.dir, "chaos")
	if out, err := output("go", "build", "-overlay", m.overlay, "-o", binary, "./proof/chaos"); err != nil {
		f.err = fmt.Errorf("the runner does not build: %w: %s", err, out)
		return f
	}
	defer os.Remove(binary)
	start := time.Now()
	for seed := 1; seed <= seeds; seed++ {
		log := filepath.Join(m.dir, "log."+strconv.Itoa(seed))
		run := exec.Command(binary, "-store", store, "-for", limit.String(), "-seed", strconv.Itoa(seed), "-shrink", "0",
			"-log", log)
		run.Env = append(os.Environ(), "TMPDIR="+m.dir) // where it saves its history
		out, _ := run.CombinedOutput()
		line, err := os.ReadFile(log)
		if err != nil {
			f.err = fmt.Errorf("the runner failed: %s", out)
			return f
		}
		if !counted.Match(line) {
			continue // nothing was found, or the run proves nothing
		}
		f.seeds++
		if as := wrong.FindSubmatch(out); as != nil && f.as == "" {
			f.as = string(as[1])
		}
	}
	f.at, f.seconds = "runner, "+store, time.Since(start).Seconds()
	if f.seeds == 0 {
		f.err = fmt.Errorf("the runner has not found it on %s with seeds 1 to %d, %v each", store, seeds, *limit)
	}
	return f
}
