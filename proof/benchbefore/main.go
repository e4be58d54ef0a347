//go:build unix

// Benchbefore says whether the working tree is slower than an earlier revision. It builds the scenarios of
// proof/bench/scenarios inside both, runs them alternately, and prints the medians, the ratio of the two, and a verdict:
//
//	benchbefore [-rounds 9] [-seconds 1] [-stores memory,sqlite,redis] [-only regexp] [-link 1ms] revision
//
// In each round both sides run one scenario right after each other, so that other load of the machine meets both, and the
// side that goes first changes from round to round. A scenario of one goroutine on a server runs with both on one core and
// with a core for each, rather than where the kernel puts them; see [bench.placements]. With -link the clients reach the
// servers over links with this delay each way, and the program measures and prints the time of a round trip. See [compare]
// for the verdict.
//
// The status is 1 if a figure is worse, and 2 if the measurement failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/proof/internal/earlier"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	h := &servertest.Host{Program: "benchbefore"}
	worse, err := mainErr(ctx, h, os.Args[1:], os.Stdout)
	h.End()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "benchbefore:", err)
		os.Exit(2)
	case worse > 0:
		fmt.Fprintf(os.Stderr, "benchbefore: %d worse than before\n", worse)
		os.Exit(1)
	}
}

func mainErr(ctx context.Context, h *servertest.Host, args []string, out io.Writer) (worse int, err error) {
	flags := flag.NewFlagSet("benchbefore", flag.ContinueOnError)
	rounds := flags.Int("rounds", 9, "how often each side runs each scenario")
	seconds := flags.Float64("seconds", 1, "how long a scenario is measured")
	chosen := flags.String("stores", "memory,sqlite,redis", "the stores, of "+known())
	only := flags.String("only", "", "run only the scenarios whose key matches this `regexp`, as in ^alone$")
	link := flags.Duration("link", 0, "reach the servers over a link that takes this `delay` each way; 0 means directly")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	if flags.NArg() != 1 || flags.Arg(0) == "" {
		return 0, errors.New("name the revision to compare with, as in make bench-before REV=HEAD~1")
	}
	if rank(*rounds) == 0 {
		return 0, fmt.Errorf("%d rounds: it takes %d to be 95 %% sure of anything", *rounds, leastRounds)
	}
	b := &bench{host: h, times: *rounds, window: time.Duration(*seconds * float64(time.Second)), link: *link, log: os.Stderr}
	if b.only, err = regexp.Compile(*only); err != nil {
		return 0, err
	}
	if b.stores, err = storesOf(*chosen); err != nil {
		return 0, err
	}
	if err := b.build(ctx, flags.Arg(0)); err != nil {
		return 0, err
	}
	if b.link > 0 {
		fmt.Fprintf(out, "over a link: a round trip takes %v\n", servertest.RoundTrip(h, b.link).Round(10*time.Microsecond))
	}
	for _, s := range b.stores {
		if err := b.measure(ctx, s); err != nil {
			return 0, err
		}
	}
	return report(out, b.results)
}

// The two sides of a comparison.
const (
	before = iota
	after
	sides
)

// scenarios is the folder of the program that both sides run, in either tree.
const scenarios = "proof/bench/scenarios"

// A bench is one run of the program.
type bench struct {
	host   *servertest.Host
	times  int // how often each side runs each scenario
	window time.Duration
	link   time.Duration // each way; 0 means no link
	stores []*store
	only   *regexp.Regexp
	log    io.Writer

	programs [sides]string
	results  []*result
}

// build builds the scenarios of the working tree inside both revisions. The earlier revision is a copy in the program's
// folder.
func (b *bench) build(ctx context.Context, revision string) error {
	top, err := output(ctx, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	root := strings.TrimSpace(top)
	commit, err := output(ctx, "git", "-C", root, "rev-parse", "--verify", "--short", revision+"^{commit}")
	if err != nil {
		return err
	}
	dir := b.host.TempDir()
	old, packed := filepath.Join(dir, "tree"), filepath.Join(dir, "tree.tar")
	if err := os.Mkdir(old, 0o755); err != nil {
		return err
	}
	for _, command := range [][]string{
		{"git", "-C", root, "archive", "-o", packed, strings.TrimSpace(commit)},
		{"tar", "-C", old, "-xf", packed},
	} {
		if _, err := output(ctx, command...); err != nil {
			return err
		}
	}
	into := filepath.Join(old, filepath.FromSlash(earlier.Path(old, scenarios)))
	if err := errors.Join(os.RemoveAll(into), os.MkdirAll(filepath.Dir(into), 0o755)); err != nil {
		return err
	}
	if err := os.CopyFS(into, os.DirFS(filepath.Join(root, filepath.FromSlash(scenarios)))); err != nil {
		return err
	}
	if err := fit(old, into); err != nil {
		return err
	}
	for side, tree := range [sides]string{before: old, after: root} {
		fmt.Fprintf(b.log, "building %s\n", [sides]string{"revision " + strings.TrimSpace(commit), "the working tree"}[side])
		b.programs[side] = filepath.Join(dir, fmt.Sprintf("scenarios-%d", side))
		if _, err := output(ctx, "go", "build", "-C", tree, "-trimpath", "-o", b.programs[side],
			"./"+earlier.Path(tree, scenarios)); err != nil {
			return err
		}
	}
	return nil
}

// fit adapts the Go files of a folder in an earlier tree to the import paths of that tree.
func fit(tree, folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, []byte(earlier.Fit(tree, string(text))), 0o600)
	})
}

// output runs a command and returns its output. The error has its error output.
func output(ctx context.Context, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	text, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w\n%s", err, exit.Stderr)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", filepath.Base(command[0]), strings.Join(command[1:], " "), err)
	}
	return string(text), nil
}
