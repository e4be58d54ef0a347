package stile_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
)

// A grant is one that was seen, with what it took of the name's capacity.
type grant struct {
	token  int64
	weight int
}

// TestTokensRiseWhereGrantsExclude has readers, writers and permits of three processes come and go, and checks of each
// two grants that cannot be held together that the later one has the larger token.
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

// TestOneSentenceAboutTokens checks that the same is promised wherever tokens are explained.
func TestOneSentenceAboutTokens(t *testing.T) {
	const promise = "larger than the token of every earlier grant of the name that excluded this one"
	for _, path := range []string{
		"README.md", "lease.go", "guard/doc.go", "docs/explain/safety.md", "docs/explain/how-it-works.md",
		"docs/howto/guard.md", "docs/reference/command.md",
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(string(text), "//", " ")), " "), promise) {
			t.Errorf("%s does not say that a token is %s", path, promise)
		}
	}
}
