package shard_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/shard"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	d := memory.New
	tests := []struct {
		what             string
		stores, previous []shard.Store
		want             string
	}{
		{"no store", nil, nil, "at least one store"},
		{"no name", []shard.Store{{Driver: d()}}, nil, `"" cannot be what a store is called`},
		{"a name of other letters", []shard.Store{{Name: "a b", Driver: d()}}, nil, `"a b" cannot be`},
		{"a name twice", []shard.Store{{Name: "a", Driver: d()}, {Name: "a", Driver: d()}}, nil, "two stores are called a"},
		{"no driver", []shard.Store{{Name: "a", Driver: d()}, {Name: "b"}}, nil, "store b has no driver"},
		{"no driver in the previous list", []shard.Store{{Name: "a", Driver: d()}}, []shard.Store{{Name: "b"}}, "store b has no driver"},
		{"two drivers", []shard.Store{{Name: "a", Driver: d()}}, []shard.Store{{Name: "a", Driver: d()}}, "store a has a driver in both lists"},
		{"too light", []shard.Store{{Name: "a", Driver: d(), Weight: -1}}, nil, "store a has weight -1"},
		{"too heavy", []shard.Store{{Name: "a", Driver: d(), Weight: shard.MaxWeight + 1}}, nil, "store a has weight 101; want at most 100"},
	}
	for _, test := range tests {
		got, err := shard.New(test.stores, &shard.Options{Previous: test.previous})
		if err == nil || got != nil || !strings.Contains(err.Error(), test.want) || !driver.NotApplied(err) {
			t.Errorf("%s: new = %v, %v; want a definite error that says %q", test.what, got, err, test.want)
		}
		for _, st := range append(slices.Clone(test.stores), test.previous...) {
			if st.Driver == nil {
				continue
			}
			if _, err := st.Driver.Enter(t.Context(), claim("x", "1")); !errors.Is(err, driver.ErrClosed) {
				t.Errorf("%s: a store's driver is open afterwards: enter = %v; want ErrClosed", test.what, err)
			}
		}
	}
}

func TestTraits(t *testing.T) {
	t.Parallel()
	stores := func() []shard.Store {
		return []shard.Store{
			{Name: "a", Driver: &declaring{memory.New(), func(t *driver.Traits) { t.Permits, t.Notes = false, []string{"it is slow"} }}},
			{Name: "b", Driver: &declaring{memory.New(), func(t *driver.Traits) { t.Granularity, t.Notes = time.Second, []string{"it is slow"} }}},
		}
	}
	d := open(t, stores(), nil)
	defer d.Close()
	got := d.Traits()
	if got.Store != "shard" || !got.Ordered || !got.Shared || got.Permits || got.Granularity != time.Second || got.Fencing != driver.ClockFencing {
		t.Errorf("traits = %+v; want what is true of both stores", got)
	}
	if want := []string{"Store a: it is slow", "Store b: it is slow"}; len(got.Notes) != 3 || !slices.Equal(got.Notes[:2], want) {
		t.Errorf("notes = %q; want %q first", got.Notes, want)
	}
	d = open(t, stores(), &shard.Options{Previous: []shard.Store{{Name: "c", Driver: memory.New()}}})
	defer d.Close()
	if got := d.Traits(); got.Ordered || got.Fencing != driver.NoFencing {
		t.Errorf("traits in a move = %+v; want neither order nor tokens", got)
	}
}

// If a store promises less than before, the traits show it.
func TestTraitsFall(t *testing.T) {
	t.Parallel()
	var fallen atomic.Bool
	falls := &declaring{memory.New(), func(tr *driver.Traits) {
		if fallen.Load() {
			tr.Unfit("memory yes", "It forgets.")
		}
	}}
	d := open(t, []shard.Store{{Name: "a", Driver: falls}, {Name: "b", Driver: memory.New()}}, nil)
	defer d.Close()
	if err := d.Traits().Require(driver.TraitFit); err != nil {
		t.Errorf("before, fit = %v; want nil", err)
	}
	fallen.Store(true)
	const want = "Store a: It forgets"
	if err := d.Traits().Require(driver.TraitFit); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("after, fit = %v; want an error with %q", err, want)
	}
}

// A driver lists, watches and breaks if all its stores do.
func TestPowers(t *testing.T) {
	t.Parallel()
	m := memory.New()
	type plain struct{ driver.Driver }
	all := map[string]driver.Driver{
		"": plain{m},
		"l": struct {
			driver.Driver
			driver.Lister
		}{m, m},
		"w": struct {
			driver.Driver
			driver.Watcher
		}{m, m},
		"b": struct {
			driver.Driver
			driver.Breaker
		}{m, m},
		"lw": struct {
			driver.Driver
			driver.Lister
			driver.Watcher
		}{m, m, m},
		"lb": struct {
			driver.Driver
			driver.Lister
			driver.Breaker
		}{m, m, m},
		"wb": struct {
			driver.Driver
			driver.Watcher
			driver.Breaker
		}{m, m, m},
		"lwb": m,
	}
	for want, weak := range all {
		for _, stores := range [][]shard.Store{
			{{Name: "a", Driver: m}, {Name: "b", Driver: weak}},
			{{Name: "a", Driver: weak}, {Name: "b", Driver: m}},
		} {
			d := open(t, stores, nil)
			got := ""
			if _, ok := d.(driver.Lister); ok {
				got += "l"
			}
			if _, ok := d.(driver.Watcher); ok {
				got += "w"
			}
			if _, ok := d.(driver.Breaker); ok {
				got += "b"
			}
			if got != want {
				t.Errorf("beside a store that can do %q, the driver can do %q", want, got)
			}
		}
	}
}

// alerting is a store that learns of danger to claims.
type alerting struct {
	*memory.Driver
	tell func(ids ...string)
}

func (a *alerting) Alert(endangered func(ids ...string)) { a.tell = endangered }

func TestAlert(t *testing.T) {
	t.Parallel()
	a, b := &alerting{Driver: memory.New()}, &alerting{Driver: memory.New()}
	d := open(t, []shard.Store{{Name: "a", Driver: a}, {Name: "b", Driver: b}, {Name: "c", Driver: memory.New()}}, nil)
	defer d.Close()
	var told []string
	d.(driver.Alerter).Alert(func(ids ...string) { told = append(told, ids...) })
	a.tell("1", "2")
	b.tell("3")
	if want := []string{"1", "2", "3"}; !slices.Equal(told, want) {
		t.Errorf("told of %q; want %q", told, want)
	}
}
