package sim_test

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// A grant is a grant of the run, with its share of the name's capacity.
type grant struct {
	token  int64
	weight int
}

// TestTokensRiseWhereGrantsExclude runs readers, writers and permits of three processes, and checks that of two grants that
// exclude each other the later one has the larger token.
func TestTokensRiseWhereGrantsExclude(t *testing.T) {
	const of = 3
	for name, lock := range map[string]func(c *stile.Client, weight int) *stile.Lock{
		"readers and writers": func(c *stile.Client, weight int) *stile.Lock {
			if weight == of {
				return c.Writer("x")
			}
			return c.Reader("x")
		},
		"permits": func(c *stile.Client, weight int) *stile.Lock { return c.Permit("x", weight, of) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				r := newRand(1)
				var grants []grant
				type held struct {
					*stile.Lease
					until time.Time
				}
				var leases []held
				peers := []*peer{w.join(nil), w.join(nil), w.join(nil)}
				smaller := 0
				for range 3000 {
					weight := 1
					if r.IntN(6) == 0 {
						weight = of
					}
					lease, err := lock(peers[r.IntN(len(peers))].Client, weight).TryLock(w.Context())
					if err == nil {
						for _, earlier := range grants {
							excludes := earlier.weight+weight > of
							if excludes && earlier.token >= lease.Token() {
								w.Fatalf("token %d after %d, which excluded it", lease.Token(), earlier.token)
							}
							if !excludes && earlier.token > lease.Token() {
								smaller++
							}
						}
						grants = append(grants, grant{lease.Token(), weight})
						leases = append(leases, held{lease, time.Now().Add(time.Duration(r.IntN(4000)) * time.Microsecond)})
					}
					<-time.After(time.Duration(r.IntN(500)) * time.Microsecond)
					rest := leases[:0]
					for _, l := range leases {
						if time.Now().Before(l.until) {
							rest = append(rest, l)
							continue
						}
						w.unlock(l.Lease)
					}
					leases = rest
				}
				for _, l := range leases {
					w.unlock(l.Lease)
				}
				if name == "readers and writers" && smaller == 0 {
					w.Error("no reader had a smaller token than an earlier one: the run shows nothing")
				}
				if len(grants) < 500 {
					w.Errorf("%d grants: the run shows nothing", len(grants))
				}
			})
		})
	}
}

// TestOneSentenceAboutTokens checks that every explanation of tokens makes the same promise.
func TestOneSentenceAboutTokens(t *testing.T) {
	const promise = "two grants of a name exclude each other, the later one has the larger token"
	for _, path := range []string{
		"README.md", "lease.go", "guard/doc.go", "docs/explain/safety.md", "docs/explain/how-it-works.md",
		"docs/howto/guard.md", "docs/command/run.md",
	} {
		text, err := os.ReadFile("../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(string(text), "//", " ")), " "), promise) {
			t.Errorf("%s does not say: if %s", path, promise)
		}
	}
}

// A modest driver promises no fencing at some times, like a store whose address leads to a worse server.
type modest struct {
	*memory.Driver
	fences atomic.Bool
}

func (d *modest) Traits() driver.Traits {
	t := d.Driver.Traits()
	if !d.fences.Load() {
		t.Fencing = driver.NoFencing
	}
	return t
}

// TestNoTokenWithoutFencing checks that the store's promise at the time of a grant decides whether the grant has a token,
// and that this stays.
func TestNoTokenWithoutFencing(t *testing.T) {
	inWorld(t, func(w *world) {
		var d *modest
		a := w.over(nil, func(m *memory.Driver) driver.Driver {
			d = &modest{Driver: m}
			return d
		})
		tell := func(what string, l *stile.Lease, fenced bool) {
			if l.Ticket() <= 0 || fenced && l.Token() != l.Ticket() || !fenced && l.Token() != 0 {
				w.Errorf("%s: ticket %d and token %d; want a token: %v", what, l.Ticket(), l.Token(), fenced)
			}
		}
		bare := w.lock(a.Mutex("bare"))
		tell("without fencing", bare, false)
		if token := stile.Token(bare.Context()); token != 0 {
			w.Errorf("the context has token %d", token)
		}
		d.fences.Store(true)
		tell("after the store promised more", bare, false)
		h, err := bare.Detach(w.Context())
		if err != nil || h.Token != 0 || h.Ticket == 0 {
			w.Fatalf("the handle has ticket %d and token %d, %v; want only a ticket", h.Ticket, h.Token, err)
		}
		again, err := a.Attach(w.Context(), h)
		if err != nil {
			w.Fatal(err)
		}
		tell("attached", again, false)
		fenced := w.lock(a.Mutex("fenced"))
		tell("with fencing", fenced, true)
		d.fences.Store(false)
		tell("after the store promised less", fenced, true)
		h, err = fenced.Detach(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		if fenced, err = a.Attach(w.Context(), h); err != nil {
			w.Fatal(err)
		}
		tell("attached where there is no fencing", fenced, false)
		w.unlock(again)
		w.unlock(fenced)
	})
}
