package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/reserve"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// target is a store in this process.
func target(name string) Target {
	return Target{"bench", func(ctx context.Context) (*stile.Client, error) { return stile.Open(ctx, "memory://"+name, nil) }}
}

func TestRun(t *testing.T) {
	var steps []Step
	p := &Plan{
		Targets: []Target{target(t.Name() + "1"), target(t.Name() + "2")}, Scenarios: Scenarios, Window: 40 * time.Millisecond, Rounds: 2,
		Progress: func(s Step) { steps = append(steps, s) },
	}
	result, err := Run(t.Context(), p)
	if err != nil || len(result.Left) > 0 || len(result.Rows) != len(Scenarios) {
		t.Fatalf("the result is %+v, %v", result, err)
	}
	for _, row := range result.Rows {
		for _, side := range row.Sides {
			if side.Times.N == 0 || side.Times.Quantile(0.5) <= 0 || len(side.Rounds) != 2 || side.Rounds[0].P50 <= 0 {
				t.Errorf("%s: %+v; want times of two rounds", row.Key, side)
			}
			if row.pauses != (side.Rate() == 0) {
				t.Errorf("%s: %v a second", row.Key, side.Rate())
			}
		}
		if r := row.Ratio(func(r Round) float64 { return float64(r.P50) }); r == nil || r.Least > r.Median || r.Median > r.Most || r.Least <= 0 {
			t.Errorf("%s: the ratio is %+v", row.Key, r)
		}
	}
	// The store that goes first changes from round to round.
	var order []int
	for i, s := range steps {
		if s.Number != i+1 || s.Of != 4*len(Scenarios) {
			t.Errorf("step %d is %+v", i, s)
		}
		if s.Scenario.Key == "hot" {
			order = append(order, s.Target)
		}
	}
	if want := []int{0, 1, 1, 0}; !slices.Equal(order, want) {
		t.Errorf("the stores are measured in the order %v; want %v", order, want)
	}
}

func TestPrefixInUse(t *testing.T) {
	c, err := stile.Open(t.Context(), "memory://"+t.Name(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	lease, err := c.Mutex("bench/theirs").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Unlock() //nolint:errcheck // the store ends with the test
	_, err = Run(t.Context(), &Plan{Targets: []Target{target(t.Name())}, Scenarios: Scenarios, Window: time.Second, Rounds: 1})
	if !errors.Is(err, reserve.ErrInUse) || !strings.Contains(err.Error(), `"bench/theirs"`) {
		t.Errorf("the error is %v; want the name that is in use", err)
	}
}

// A store that vanishes leaves what was measured before, and the error says what came of it.
func TestStoreVanishes(t *testing.T) {
	d := memory.New()
	p := &Plan{
		Targets: []Target{{"bench", func(context.Context) (*stile.Client, error) {
			return stile.New(d, &stile.Options{Patience: 3 * time.Second})
		}}},
		Scenarios: Scenarios[:3], Window: 40 * time.Millisecond, Rounds: 1,
		Progress: func(s Step) {
			if s.Number == 2 {
				d.SetLink(memory.Refused)
			}
		},
	}
	result, err := Run(t.Context(), p)
	if !errors.Is(err, stile.ErrUnreachable) && !errors.Is(err, stile.ErrUnknown) {
		t.Errorf("the error is %v; want that the store does not answer", err)
	}
	if first, second := result.Rows[0].Sides[0], result.Rows[1].Sides[0]; first.Times.N == 0 || second.Times.N != 0 {
		t.Errorf("%d times before and %d after; want some, and none", first.Times.N, second.Times.N)
	}
	if len(result.Left) != 1 || !strings.Contains(result.Left[0], "could not be looked for") {
		t.Errorf("what is left is %q; want that it is not known", result.Left)
	}
}

// Whoever ends a run finds nothing left of it.
func TestEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	p := &Plan{
		Targets: []Target{target(t.Name())}, Scenarios: Scenarios, Window: time.Minute, Rounds: 1,
		Progress: func(Step) { time.AfterFunc(20*time.Millisecond, func() { cancel(cause) }) },
	}
	result, err := Run(ctx, p)
	if !errors.Is(err, cause) || len(result.Left) > 0 {
		t.Errorf("the error is %v, and left is %q; want %v, and nothing", err, result.Left, cause)
	}
}

// A store without readers is not asked for them.
func TestWithoutReaders(t *testing.T) {
	result := &Result{Traits: []driver.Traits{{Shared: true}, {}}}
	r := &runner{Plan: &Plan{Scenarios: Scenarios}, result: result}
	if err := r.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, row := range result.Rows {
		if row.Sides[0] == nil || (row.Sides[1] == nil) != (row.Key == "readers") {
			t.Errorf("%s: the sides are %v", row.Key, row.Sides)
		}
	}
}
