//go:build linux

// Served measures what the lock service costs, beside what stands for the least that it could cost: a service that does nothing
// with the same HTTP, Consul's own agent with its own client, and the store asked directly. All of it is measured in one run,
// alternating, on servers that the run starts and ends.
//
//	go run ./proof/bench/served -write docs/evidence/serve.md
//
// It fails if a lock was lost, or two held at once, or a place in a queue was lost.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/proof/bench/internal/system"
)

// parts are what can be measured, by the names that -parts takes, in their order.
var parts = []struct {
	name    string
	measure func(*run) error
}{
	{"processor", processor}, {"rate", rate}, {"handover", handOver}, {"herd", herd}, {"failover", failover}, {"page", viewers},
}

// A run is what the parts share.
type run struct {
	host   *servertest.Host
	log    io.Writer
	short  bool
	rounds int
	window time.Duration // of one figure
	dir    string
	stile  string // the command
	redis  *servertest.Server
	page   page
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == noopArg {
		fmt.Fprintln(os.Stderr, "served:", serveNoop(os.Args[2:]))
		os.Exit(1)
	}
	h := &servertest.Host{Program: "served"}
	err := mainErr(h, os.Args[1:], os.Stdout, os.Stderr)
	h.End()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "served:", err)
		os.Exit(1)
	}
}

func mainErr(h *servertest.Host, args []string, stdout, stderr io.Writer) error {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	flags := flag.NewFlagSet("served", flag.ContinueOnError)
	flags.SetOutput(stderr)
	write := flags.String("write", "", "write the page into this `file`; without it, the page is printed")
	only := flags.String("parts", strings.Join(names, ","), "what to measure, with commas between")
	short := flags.Bool("short", false, "take a minute, for figures that mean little")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("served takes only flags, but got %q", flags.Arg(0))
	}
	chosen := strings.Split(*only, ",")
	for _, name := range chosen {
		if !slices.Contains(names, name) {
			return fmt.Errorf("-parts: %q is none of %s", name, strings.Join(names, ", "))
		}
	}
	r := &run{host: h, log: stderr, short: *short, rounds: 5, window: 2 * time.Second, dir: h.TempDir()}
	if r.short {
		r.rounds, r.window = 1, 200*time.Millisecond
	}
	r.page.command = strings.TrimSpace("go run ./proof/bench/served " + strings.Join(args, " "))
	r.page.begun, r.page.load[0] = time.Now(), system.Load()
	var err error
	if r.stile, err = r.build("cmd/stile"); err != nil {
		return err
	}
	r.redis = servertest.Redis(h)
	r.page.versions = append(r.page.versions, "Redis "+r.redis.RedisInfo("redis_version")+", which keeps nothing on disk")
	var faults []error
	for _, p := range parts {
		if !slices.Contains(chosen, p.name) {
			continue
		}
		if err := p.measure(r); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", p.name, err))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	r.page.load[1] = system.Load()
	text := r.page.String(r)
	if *write == "" {
		_, err := io.WriteString(stdout, text)
		return err
	}
	return os.WriteFile(*write, []byte(text), 0o644)
}

// say reports a figure as it comes.
func (r *run) say(format string, args ...any) { fmt.Fprintf(r.log, format+"\n", args...) }

// build builds a program of the repository, and returns its path.
func (r *run) build(path string) (string, error) {
	file := filepath.Join(r.dir, filepath.Base(path))
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-tags", "grpcnotrace", "-o", file, "github.com/stilelock/stile/"+path)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return file, nil
}
