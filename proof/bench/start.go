//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/stilelock/stile/internal/histogram"
)

const (
	runsTrue     = "stile run x -- true"
	tellsVersion = "stile version"
	flocksTrue   = "flock x true"
	linkedTrue   = "the libraries, with a row"
	linked       = "the libraries alone"
)

// start measures the command, from its start to its end.
func (b *bench) start() *measure {
	build := func(name, path string) func() (string, error) {
		return sync.OnceValues(func() (string, error) { return b.command(name, path) })
	}
	command, bare := build("stile", "cmd/stile"), build("linked", "cmd/stile/testdata/linked")
	m := &measure{
		key: "start", title: "The command, from its beginning to its end",
		about: "Each begins, does what it is told, and ends, one after the other, with the locks in the same file. " + flocksTrue +
			" is flock(1), which keeps a lock of the kernel and is 60 kB of C; the command has all stores, and is built as make build has it. " +
			"The libraries are those of all stores, in a program that does nothing else (cmd/stile/testdata/linked). With a row, it opens an SQLite file, " +
			"inserts a row, starts itself as a process that starts true, and deletes the row: what stile run cannot go without.",
		columns: []column{{"p50", "p50 ms", 1}, {"p99", "p99 ms", 1}, {"n", "samples", 0}},
	}
	flock := func() (string, error) { return "flock", nil }
	for _, what := range []struct {
		name    string
		program func() (string, error)
		args    []string
	}{
		{runsTrue, command, []string{"run", "x", "--", "true"}},
		{linkedTrue, bare, []string{filepath.Join(b.dir, "linked.db"), "/bin/true"}},
		{tellsVersion, command, []string{"version"}},
		{linked, bare, nil},
		{flocksTrue, flock, []string{filepath.Join(b.dir, "flock"), "true"}},
	} {
		m.rows = append(m.rows, &row{name: what.name, run: func() (sample, error) {
			program, err := what.program()
			if err != nil {
				return nil, err
			}
			return b.startOne(program, what.args...)
		}})
	}
	return m
}

// command builds a program, and returns its path.
func (b *bench) command(name, path string) (string, error) {
	file := filepath.Join(b.dir, name)
	build := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-tags", "grpcnotrace",
		"-o", file, "github.com/stilelock/stile/"+path)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return file, nil
}

func (b *bench) startOne(program string, args ...string) (sample, error) {
	env := append(os.Environ(), "STILE_URL=sqlite://"+b.addr+".command")
	var times histogram.Histogram
	for end := time.Now().Add(b.window); times.N == 0 || time.Now().Before(end); {
		cmd := exec.CommandContext(context.Background(), program, args...)
		cmd.Env = env
		begin := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", program, err, out)
		}
		times.Add(time.Since(begin))
	}
	return sample{"p50": millis(times.Quantile(0.5)), "p99": millis(times.Quantile(0.99)), "n": float64(times.N)}, nil
}
