package keyqueue

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

type entry Facts

func (e entry) Facts() Facts { return Facts(e) }

// A history is a [driver.Queue], and the same claims as keys, each of which enters before it is judged. A stranger is a
// claim of the whole capacity there: what it counts for.
type history struct {
	rule driver.Queue
	keys Queue[entry]
	step int
}

// TestAgreesWithTheRule has claims and strangers enter and leave at random, by driver.Queue and by keys.
func TestAgreesWithTheRule(t *testing.T) {
	t.Parallel()
	strangers, refused := 0, 0
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
		var h history
		for h.step = range 40 {
			var err error
			switch n := r.IntN(8); {
			case n < 2 && len(h.keys) > 0:
				err = h.leave(r.IntN(len(h.keys)))
			case n == 2 && len(h.keys) > 0:
				strangers++
				h.stranger(r.IntN(2) == 0)
			default:
				var no bool
				no, err = h.enter(randomClaim(r, h.step))
				if no {
					refused++
				}
			}
			if err == nil {
				err = h.same()
			}
			if err != nil {
				t.Fatalf("seed %d, step %d: %v\nthe rule: %+v\nthe keys: %+v", seed, h.step, err, h.rule, h.keys)
			}
		}
	}
	if strangers == 0 || refused == 0 {
		t.Errorf("%d strangers came, and %d claims were refused; want many", strangers, refused)
	}
}

func randomClaim(r *rand.Rand, step int) *driver.Claim {
	c := &driver.Claim{
		ID: fmt.Sprint("id", step), Client: fmt.Sprint("client", r.IntN(2)), Owner: []string{"", "job"}[r.IntN(2)],
		Capacity: []int64{3, 3, 3, driver.All}[r.IntN(4)], TTL: time.Hour, Wait: time.Hour, Try: r.IntN(4) == 0, Reclaim: r.IntN(4) == 0,
	}
	if c.Weight = 1 + r.Int64N(3); c.Capacity == driver.All && c.Weight > 1 {
		c.Weight = driver.All
	}
	return c
}

func (h *history) leave(i int) error {
	if h.keys[i].Foreign || h.rule.Entries[i].ID != h.keys[i].ID {
		h.rule.Entries = slices.Delete(h.rule.Entries, i, i+1)
	} else if err := h.rule.Leave(0, &driver.Release{Claim: &driver.Claim{ID: h.keys[i].ID}}); err != nil {
		return err
	}
	h.keys = slices.Delete(h.keys, i, i+1)
	return nil
}

// stranger has one come in at the tail. Each has a capacity of its own, so that no two make a queue of theirs.
func (h *history) stranger(foreign bool) {
	e := entry{ID: fmt.Sprint("stranger", h.step), Weight: 1, Capacity: int64(100 + h.step)}
	if foreign {
		e = entry{Foreign: true, Weight: driver.All, Capacity: driver.All}
	}
	h.keys = append(h.keys, e)
	h.rule.Entries = append(h.rule.Entries, driver.Entry{Weight: h.rule.Capacity, Ends: 1 << 60})
}

// enter has a claim enter by both. It reports whether it was refused.
func (h *history) enter(c *driver.Claim) (refused bool, err error) {
	out, no := h.keys.Admit(c)
	if rest := h.keys.Without(c); len(rest) > 0 && rest.Capacity() != h.rule.Capacity {
		// A stranger has come to the head. The rule has no such thing: whoever is of another capacity stays out.
		if want := rest.Capacity() != c.Capacity; want != (no != nil) {
			return false, fmt.Errorf("behind a stranger, Admit %w", no)
		}
		return no != nil, nil
	}
	place, want := h.rule.Enter(0, 0, c)
	if have, is := errors.AsType[*driver.CapacityError](want); is {
		got, _ := errors.AsType[*driver.CapacityError](no)
		if got == nil || *got != *have {
			return true, fmt.Errorf("the rule says %w, Admit %w", want, no)
		}
	} else if (place.Ticket == 0) != (out != nil) || out != nil && out.Ahead != place.Ahead {
		return false, fmt.Errorf("the rule says %+v, Admit %+v, %w", place, out, no)
	}
	after := append(slices.Clone(h.keys), entry{
		ID: c.ID, Client: c.Client, Owner: c.Owner, Ticket: max(1, place.Ticket), Weight: c.Weight, Capacity: c.Capacity,
	})
	verdict, why := after.Judge(c, len(after)-1)
	if verdict == Evicts {
		after = after.Without(c)
		verdict, why = after.Judge(c, len(after)-1)
	}
	if is := map[Verdict]bool{
		Refused: want != nil,
		TooLate: want == nil && place.Ticket == 0,
		Waits:   place.Ticket != 0 && !place.Holds,
		Holds:   place.Holds,
	}; !is[verdict] || (why != nil) != (want != nil) {
		return false, fmt.Errorf("the rule says %+v, %w; Judge %v, %w", place, want, verdict, why)
	}
	if want == nil && place.Ticket != 0 {
		h.keys = after
	}
	return want != nil, nil
}

// same compares who holds, and looks at whom the others watch.
func (h *history) same() error {
	holding := h.keys.Holding()
	if h.rule.Holding() != holding || len(h.rule.Entries) != len(h.keys) {
		return fmt.Errorf("%d hold by the rule, %d by the keys", h.rule.Holding(), holding)
	}
	for i := range h.keys {
		watched := h.keys.Watches(i)
		if (i < holding) != (len(watched) == 0) {
			return fmt.Errorf("%d watches %v, and %d hold", i, watched, holding)
		}
		// It does not hold while the entries that it watches stand, whichever others leave.
		var rest Queue[entry]
		for j := range i {
			if slices.Contains(watched, j) {
				rest = append(rest, h.keys[j])
			}
		}
		if rest = append(rest, h.keys[i]); len(watched) > 0 && rest.Holding() == len(rest) {
			return fmt.Errorf("%d would hold while %v stand, whom it watches", i, watched)
		}
	}
	return nil
}

// Of many who stand ahead, a claim watches as many as it needs to go.
func TestFewAreWatched(t *testing.T) {
	t.Parallel()
	claim := func(weight, capacity int64) entry { return entry{Weight: weight, Capacity: capacity} }
	foreign := entry{Foreign: true, Weight: driver.All, Capacity: driver.All}
	for _, test := range []struct {
		what string
		q    Queue[entry]
		want []int
	}{
		{"a mutex watches the one before it", Queue[entry]{claim(driver.All, driver.All), claim(1, driver.All), claim(driver.All, driver.All)}, []int{1}},
		{"a reader watches the last writer", Queue[entry]{claim(driver.All, driver.All), claim(1, driver.All), claim(1, driver.All)}, []int{0}},
		{"a permit watches as many as make no room", Queue[entry]{claim(1, 3), claim(1, 3), claim(1, 3), claim(1, 3)}, []int{2, 1, 0}},
		{"a large permit watches fewer", Queue[entry]{claim(1, 3), claim(1, 3), claim(1, 3), claim(3, 3)}, []int{2}},
		{"behind another capacity", Queue[entry]{claim(1, 3), claim(1, 5), claim(1, 3)}, []int{1}},
		{"of another capacity than the head", Queue[entry]{claim(1, 5), claim(1, 5), claim(2, 3)}, []int{1}},
		{"behind another library's client", Queue[entry]{claim(1, 3), foreign, claim(1, 3)}, []int{1}},
	} {
		if got := test.q.Watches(len(test.q) - 1); !slices.Equal(got, test.want) {
			t.Errorf("%s: Watches = %v; want %v", test.what, got, test.want)
		}
	}
}

// What observers see of strangers: they hold at the head alone, and nobody behind them does.
func TestStandingsOfStrangers(t *testing.T) {
	t.Parallel()
	foreign := entry{Foreign: true, Weight: driver.All, Capacity: driver.All}
	q := Queue[entry]{
		{ID: "a", Ticket: 1, Weight: 1, Capacity: 3, Record: "a"}, {ID: "b", Ticket: 2, Weight: 1, Capacity: 5},
		foreign, {ID: "c", Ticket: 4, Weight: 1, Capacity: 3},
	}
	want := []driver.ClaimInfo{
		{Ticket: 1, Weight: 1, Holds: true, Record: "a"}, {Ticket: 2, Weight: 1}, {Weight: 3}, {Ticket: 4, Weight: 1},
	}
	if got := q.Standings(); !slices.Equal(got, want) {
		t.Errorf("Standings = %+v; want %+v", got, want)
	}
	if p := q.Place(3); p.Holds || p.Ahead != 3 || p.Ticket != 4 || p.Blocker != want[0] {
		t.Errorf("Place = %+v; want the fourth, behind %+v", p, want[0])
	}
	if got := (Queue[entry]{foreign}).Standings(); len(got) != 1 || !got[0].Holds || got[0].Weight != driver.All {
		t.Errorf("another library's client alone = %+v; want that it holds all", got)
	}
}
