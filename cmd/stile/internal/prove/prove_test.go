package prove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	_ "github.com/stilelock/stile/store/sqlite"
)

// The worker of a test is the test itself, with a brief and a store in its environment.
const (
	briefVariable = "STILE_PROVE_BRIEF"
	storeVariable = "STILE_PROVE_STORE"
)

func TestMain(m *testing.M) {
	text, ok := os.LookupEnv(briefVariable)
	if !ok {
		os.Exit(m.Run())
	}
	b := &Brief{}
	err := json.Unmarshal([]byte(text), b)
	if err == nil {
		err = Work(context.Background(), b, opener(os.Getenv(storeVariable)), os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// opener opens a store: the path of an SQLite file, after a word for its fault.
func opener(store string) func(context.Context) (*stile.Client, error) {
	wrong, path, _ := strings.Cut(store, ":")
	return func(ctx context.Context) (*stile.Client, error) {
		if wrong == "apart" { // each process locks for itself
			path += fmt.Sprint(os.Getpid())
		}
		d, err := driver.Open(ctx, "sqlite://"+path)
		if err != nil {
			return nil, err
		}
		return stile.New(&broken{d, wrong}, nil)
	}
}

// A broken driver has one mistake.
type broken struct {
	driver.Driver
	wrong string
}

// claim returns the driver's own claim for a claim.
func (b *broken) claim(c *driver.Claim) *driver.Claim {
	other := *c
	switch b.wrong {
	case "short": // the store ends leases before their holders do
		other.TTL, other.Wait = c.TTL/2, c.Wait/2
	case "forever": // the claims of clients that have ended stay
		other.TTL, other.Wait = c.TTL*1000, c.Wait*1000
	case "falling": // each token is smaller than the one before
		other.Ticket = falling(c.Ticket)
	}
	return &other
}

func falling(ticket int64) int64 {
	if ticket == 0 {
		return 0
	}
	return 1<<40 - ticket
}

func (b *broken) place(p driver.Place) driver.Place {
	if b.wrong == "falling" {
		p.Ticket = falling(p.Ticket)
	}
	if b.wrong == "short" {
		p.TTL *= 2
	}
	return p
}

func (b *broken) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	p, err := b.Driver.Enter(ctx, b.claim(c))
	return b.place(p), err
}

func (b *broken) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	p, err := b.Driver.Await(ctx, b.claim(c))
	return b.place(p), err
}

func (b *broken) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	others := make([]*driver.Claim, len(cs))
	for i, c := range cs {
		others[i] = b.claim(c)
	}
	rs := b.Driver.Renew(ctx, others)
	for i := range rs {
		if b.wrong == "short" {
			rs[i].TTL *= 2
		}
	}
	return rs
}

func (b *broken) Leave(ctx context.Context, l *driver.Release) error {
	return b.Driver.Leave(ctx, &driver.Release{Claim: b.claim(l.Claim), Keep: l.Keep})
}

func (b *broken) List(ctx context.Context, q *driver.Query) ([]driver.Listing, error) {
	return b.Driver.(driver.Lister).List(ctx, q)
}

// plan is a short run.
func plan(t *testing.T, wrong string) *Plan {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	store := wrong + ":" + filepath.Join(t.TempDir(), "locks.db")
	return &Plan{
		Open: opener(store), Prefix: "prove", For: time.Millisecond, Workers: 3, Seed: 1, lease: time.Second,
		Worker: func(b *Brief) (*exec.Cmd, error) {
			text, err := json.Marshal(b)
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), briefVariable+"="+string(text), storeVariable+"="+store)
			return cmd, err
		},
		Progress: func(text string, _ time.Duration) { t.Log(text) },
	}
}

// A store that is in order passes: the faults hit, and the file without a guard shows what they did.
func TestPasses(t *testing.T) {
	t.Parallel()
	r, err := Run(t.Context(), plan(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != Passed || len(r.Findings)+len(r.Why) > 0 {
		t.Errorf("the run has %s: %q %q", r.Verdict, r.Findings, r.Why)
	}
	if r.Control.Lost == 0 || r.Guarded.Lost != 0 || r.Guarded.Count == 0 || r.Refused == 0 {
		t.Errorf("without a guard %+v, with one %+v, and %d refused", r.Control, r.Guarded, r.Refused)
	}
	for _, kind := range Kinds {
		if made, hit, why := r.Counts(kind); made == 0 || (hit > 0) != (kind != Cut) {
			t.Errorf("%s: %d were made, %d hit: %s", kind, made, hit, why)
		}
	}
	if !slices.ContainsFunc(r.Untested, func(text string) bool { return strings.HasPrefix(text, "connections that are cut") }) {
		t.Errorf("not tested is %q; want the connections, which SQLite does not have", r.Untested)
	}
	page, err := r.Page("sqlite://<b>")
	for _, want := range []string{"passed: ", "sqlite://&lt;b&gt;", "stands still", "killed", "What was not tested", "</html>"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %q, %v", want, err)
		}
	}
}

// A driver with a mistake is found out.
func TestFindsMistakes(t *testing.T) {
	t.Parallel()
	for wrong, want := range map[string]string{
		"apart":   "two hold that exclude each other",
		"short":   "two hold that exclude each other",
		"falling": "a token falls",
		"forever": "nobody held within",
	} {
		t.Run(wrong, func(t *testing.T) {
			t.Parallel()
			p := plan(t, wrong)
			switch wrong {
			case "short": // whether another takes over before the lease would have ended is for chance to say
				p.lease = 3 * time.Second
			case "forever":
				p.bound = 3 * time.Second // on a slow machine others are late too
			}
			var r *Report
			found := false
			for begun := time.Now(); !found && time.Since(begun) < 5*time.Minute; p.Seed++ {
				var err error
				if r, err = Run(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				found = r.Verdict == Failed && strings.Contains(strings.Join(r.Findings, "; "), want)
			}
			if !found {
				t.Errorf("the run has %s with %q and %q; want that %s", r.Verdict, r.Findings, r.Why, want)
			}
			if page, err := r.Page("x"); err != nil || !strings.Contains(string(page), `class="v failed"`) {
				t.Errorf("the page does not say so, %v", err)
			}
		})
	}
}

// A run that somebody ends is inconclusive, and leaves neither processes nor names.
func TestEndedRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	p := plan(t, "")
	p.Progress = func(text string, _ time.Duration) {
		if strings.HasPrefix(text, "fault 1") {
			cancel(cause)
		}
	}
	r, err := Run(ctx, p)
	if !errors.Is(err, cause) || r == nil || r.Verdict != Inconclusive {
		t.Fatalf("the run has %+v, %v; want that it is inconclusive, for %v", r, err, cause)
	}
	c, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left, err := c.List(t.Context(), ""); err != nil || len(left) > 0 {
		t.Errorf("left is %+v, %v", left, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A client that stands still with one of the files locked says nothing about the lock.
func TestStandsStillInAFile(t *testing.T) {
	t.Parallel()
	p := plan(t, "")
	c, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r := &run{Plan: p, client: c, dir: t.TempDir(), ttl: p.lease}
	if why := r.blocks(t.Context()); why != "" {
		t.Errorf("nobody stands still, and it blocks since %s", why)
	}
	_, err = openRegister(r.dir, guardedFile).do(func(*state) {
		if why := r.blocks(t.Context()); !strings.Contains(why, "kept the file locked") {
			t.Errorf("the file is locked, and it blocks since %q", why)
		}
	})
	if err != nil {
		t.Error(err)
	}
}
