package trial

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/flags"
	"github.com/stilelock/stile/cmd/stile/internal/page"
	"github.com/stilelock/stile/cmd/stile/internal/prove"
	"github.com/stilelock/stile/cmd/stile/internal/reserve"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/child"
	"github.com/stilelock/stile/internal/ending"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
)

const proveLong = `Tests the store with processes of its own that lock and unlock the same names.
Meanwhile it pauses, kills, cuts off and suspends these processes. Then it checks
what they believed: no two held what excludes each other, tokens rose, each process
held again after the faults, and nothing is left. A file that refuses late writes
must lose no update. A second file accepts them, and shows what is lost then.

It touches only its own processes, and names below a prefix that nobody else uses.
It does not make servers fail.

Exit status: 0 if the store passed, 1 if it failed, 2 if the run is inconclusive:
the store went away, a fault did not hit, or somebody ended the run.`

// The statuses of stile prove.
const (
	Unproven     = 1
	Inconclusive = 2
)

// A proof is one stile prove.
type proof struct {
	during  flags.Duration
	clients int
	seed    uint64
	prefix  string
	json    bool
	html    answer.File
	address string // of the store, without a password
}

const (
	duringLeast = time.Second
	duringMost  = time.Hour
)

// Prove returns the command.
func Prove(s *store.Store) *cobra.Command {
	p := &proof{html: answer.File{Flag: "html"}}
	cmd := &cobra.Command{
		Use: "prove [URL]", Short: "Put a store to the test with clients that fail", Long: proveLong,
		Example: "  stile prove redis://localhost\n  stile prove --for 5m --html report.html postgres://localhost/app",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return exit.Usage("stile prove takes one URL at most, and got %d", len(args))
			case len(args) == 1 && s.Given():
				return exit.Usage("stile prove takes one URL, and got two: by --url and as an argument")
			case len(args) == 1 && args[0] == "":
				return exit.Usage("URL is empty: it is the URL of a store; leave it out for the store of %s, or the default one",
					store.URLVariable)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check(cmd); err != nil {
				return err
			}
			if len(args) == 1 {
				s.URL = args[0]
			}
			ctx, stop := ending.Until(cmd.Context(), ending.Listen(ending.Signals))
			defer stop()
			return p.run(ctx, cmd, s)
		},
	}
	f := cmd.Flags()
	f.Var(&p.during, "for", "how long faults are made (default 30s, or eight leases of the store)")
	f.IntVar(&p.clients, "clients", 4, "how many processes lock")
	f.Uint64Var(&p.seed, "seed", 0, "what the faults are drawn from (default a random number)")
	f.StringVar(&p.prefix, "prefix", "", "what all names begin with (default stile-prove- and a random word)")
	f.BoolVar(&p.json, "json", false, "print one JSON value")
	f.StringVar(&p.html.Path, "html", "", "also write a report for people into this file")
	cmd.AddCommand(newProver(s))
	return cmd
}

// check returns an error if the flags are wrong.
func (p *proof) check(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	switch d := time.Duration(p.during); {
	case changed("for") && (d < duringLeast || d > duringMost):
		return exit.Usage("--for %v: it must be from %v to %v", d, duringLeast, duringMost)
	case p.clients < 2 || p.clients > 16:
		return exit.Usage("--clients %d: it must be from 2 to 16", p.clients)
	case changed("prefix") && p.prefix == "":
		return exit.Usage("--prefix is empty: it is what the names of the locks begin with")
	}
	word := rand.Text()
	if p.prefix == "" {
		p.prefix = "stile-prove-" + word[:10]
	}
	if !changed("seed") {
		for _, letter := range word[10:20] {
			p.seed = p.seed*32 + uint64(letter)%32
		}
	}
	if err := driver.CheckName(p.prefix + "/permits"); err != nil { // the longest name
		return exit.Usage("--prefix %s: %w", phrase.Shortened(p.prefix), err)
	}
	return p.html.Check(changed("html"))
}

func (p *proof) run(ctx context.Context, cmd *cobra.Command, s *store.Store) error {
	s.Silent = true
	a, url, err := s.Address()
	if err != nil {
		return err
	}
	p.address = a.String()
	report, err := prove.Run(ctx, &prove.Plan{
		Open:   func(ctx context.Context) (*stile.Client, error) { return s.Open(ctx, nil) },
		Worker: func(b *prove.Brief) (*exec.Cmd, error) { return prover(url, b) },
		Prefix: p.prefix, For: time.Duration(p.during), Workers: p.clients, Seed: p.seed, Progress: p.progress,
	})
	speech.Stderr.Erase()
	switch {
	case errors.Is(err, reserve.ErrInUse):
		return exit.Usage("%w; choose another with --prefix", err)
	case report == nil:
		return err
	case err == nil && report.Verdict == prove.Failed:
		err = exit.With(Unproven, nil)
	case err == nil && report.Verdict == prove.Inconclusive:
		err = exit.With(Inconclusive, nil)
	}
	if failed := p.publish(cmd.OutOrStdout(), report); failed != nil {
		return failed
	}
	return err
}

// progress shows the present step.
func (p *proof) progress(text string, left time.Duration) {
	speech.Detail("%s", text)
	if speech.Current == speech.Quiet {
		return
	}
	speech.Stderr.Draw(func(cells int) string {
		return page.Cut("stile: "+text+"; "+page.Short(left)+" left at most", cells)
	})
}

// prover is the hidden command of a process that locks in the store while faults hit it.
func prover(url string, b *prove.Brief) (*exec.Cmd, error) {
	text, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(child.Self(), "prove", proverName, string(text))
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), store.URLVariable+"="+url)
	if cmd.SysProcAttr = child.OfParent(); cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true // so that the run passes on a terminal's signals itself
	return cmd, nil
}

const proverName = "client"

// newProver returns the command of one such process.
func newProver(s *store.Store) *cobra.Command {
	return &cobra.Command{
		Use: proverName, Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b := &prove.Brief{}
			if err := json.Unmarshal([]byte(args[0]), b); err != nil {
				return exit.Usage("brief %s: %w", phrase.Shortened(args[0]), err)
			}
			s.TTL = b.TTL
			open := func(ctx context.Context) (*stile.Client, error) { return s.Open(ctx, nil) }
			return prove.Work(cmd.Context(), b, open, os.Stdin, os.Stdout)
		},
	}
}
