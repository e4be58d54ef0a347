package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A finding is the outcome of one mutant.
type finding struct {
	at          string // the world or the test
	transitions string
	seconds     float64
	seeds       int    // how many of some seeds have found it
	as          string // the message of the finder
	err         error
}

// find looks for the mutant in the first way that its head names, or by exploration if the head names none.
func (m *mutant) find() finding {
	if len(m.ways) > 0 {
		return m.try(m.ways[0])
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

// walk lets the explorer find the mutant.
func (m *mutant) walk() (f finding) {
	binary := filepath.Join(m.dir, "explore")
	if out, err := output("go", "build", "-overlay", m.overlay, "-o", binary, explorer); err != nil {
		f.err = fmt.Errorf("it does not build: %w: %s", err, out)
		return f
	}
	start := time.Now()
	out, err := exec.Command(binary, "-set", "small", "-for", limit.String()).CombinedOutput()
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

// try lets a test find the mutant.
func (m *mutant) try(w way) (f finding) {
	binary := filepath.Join(m.dir, "package.test")
	if out, err := output("go", "test", "-c", "-vet=off", "-overlay="+m.overlay, "-o", binary, w.where); err != nil {
		f.err = fmt.Errorf("its test does not build: %w: %s", err, out)
		return f
	}
	parts := strings.Split(w.test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	end := *limit + time.Minute // a test stops waiting after a minute
	cmd := exec.Command(binary, "-test.run", strings.Join(parts, "/"), "-test.timeout", end.String())
	cmd.Dir = w.where
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+m.overlay)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	os.Remove(binary)
	f.seconds = time.Since(start).Seconds()
	if err == nil {
		f.err = fmt.Errorf("%s passes in %.1f s: %s", w.test, f.seconds, out)
		return f
	}
	if bytes.Contains(out, []byte("test timed out")) {
		f.err = fmt.Errorf("%s has not found it in %.1f s", w.test, f.seconds)
		return f
	}
	f.at = w.test
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
