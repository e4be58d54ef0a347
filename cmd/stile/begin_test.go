package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/cmd/stile/internal/guard"
	"github.com/stilelock/stile/cmd/stile/internal/store"
)

// The guard does not wait for the libraries of the stores to be initialized.
func TestFewBeforeTheGuard(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), binary, guard.Arg)
	cmd.Env = []string{"GODEBUG=inittrace=1"}
	trace, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(trace)) {
		for _, library := range []string{"go.etcd.io", "modernc.org/sqlite", "protobuf/types", "spf13", "stile/driver"} {
			if strings.Contains(line, library) {
				t.Errorf("before the guard begins: %s", line)
			}
		}
	}
	if n := strings.Count(string(trace), "\n"); n == 0 || n > 40 {
		t.Errorf("%d packages are initialized before the guard; want 1 to 40:\n%s", n, trace)
	}
}

// BenchmarkBegin measures the start of the command, as the medians of rounds in turn, in wall time and in processor
// time. Linked, in testdata, is the bare limit of the libraries, and flock(1) the limit of a command without
// libraries.
//
//	go test -run NONE -bench Begin -benchtime 100x ./cmd/stile
func BenchmarkBegin(b *testing.B) {
	dir := b.TempDir()
	program := func(path string) string {
		file := filepath.Join(dir, filepath.Base(path))
		build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-tags", "grpcnotrace", "-o", file, path)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		return file
	}
	stile, linked := program("../stile"), program("./testdata/linked")
	const nothing = "/bin/true"
	contenders := []struct {
		name string
		argv []string
		wall []time.Duration
		cpu  []time.Duration
	}{
		{name: "version", argv: []string{stile, "version"}},
		{name: "linked", argv: []string{linked}},
		{name: "guard", argv: []string{stile, guard.Arg}},
		{name: "run", argv: []string{stile, "run", "x", "--", nothing}},
		{name: "linked-run", argv: []string{linked, filepath.Join(dir, "bare.db"), nothing}},
		{name: "flock", argv: []string{"flock", filepath.Join(dir, "lock"), nothing}},
	}
	for b.Loop() {
		for i := range contenders {
			c := &contenders[i]
			cmd := exec.CommandContext(b.Context(), c.argv[0], c.argv[1:]...)
			cmd.Env = append(os.Environ(), store.URLVariable+"=sqlite://"+filepath.Join(dir, "stile.db"))
			begin := time.Now()
			if err := cmd.Run(); err != nil {
				b.Fatalf("%v: %v", c.argv, err)
			}
			c.wall = append(c.wall, time.Since(begin))
			c.cpu = append(c.cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, c := range contenders {
		b.ReportMetric(middle(c.wall), c.name+"-ms")
		b.ReportMetric(middle(c.cpu), c.name+"-cpu-ms")
	}
}

// middle returns the median in milliseconds.
func middle(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)/2]) / float64(time.Millisecond)
}
