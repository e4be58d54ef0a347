//go:build unix

package main

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestRank(t *testing.T) {
	// By the tables of the sign test at 5 %, two-sided.
	for _, tt := range []struct{ n, want int }{
		{0, 0}, {1, 0}, {5, 0}, {6, 1}, {8, 1}, {9, 2}, {11, 2}, {12, 3}, {15, 4}, {20, 6}, {25, 8}, {50, 18}, {100, 40},
	} {
		if got := rank(tt.n); got != tt.want {
			t.Errorf("rank(%d) = %d, want %d", tt.n, got, tt.want)
		}
	}
	if rank(leastRounds) == 0 || rank(leastRounds-1) != 0 {
		t.Errorf("%d rounds are not the least that make an interval", leastRounds)
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{
		{nil, math.NaN()},
		{[]float64{3}, 3},
		{[]float64{3, 1}, 2},
		{[]float64{3, 1, 2}, 2},
		{[]float64{4, 1, 100, 2}, 3},
	} {
		if got := median(tt.values); got != tt.want && !(math.IsNaN(got) && math.IsNaN(tt.want)) {
			t.Errorf("median(%v) = %v, want %v", tt.values, got, tt.want)
		}
	}
}

// times returns values of both sides with these ratios; the values before are near 100.
func times(ratios ...float64) (before, after []float64) {
	for i, r := range ratios {
		scale := float64(100 + 10*i) // rounds differ, and the pairs do not
		before, after = append(before, scale), append(after, r*scale)
	}
	return before, after
}

func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		name             string
		ratios           []float64
		higher           bool
		ratio, low, high float64
		verdict          string
	}{
		{"equal", []float64{1, 1, 1, 1, 1, 1, 1, 1, 1}, false, 1, 1, 1, "same"},
		{"slower", []float64{1.1, 1.2, 1.3, 1.1, 1.2, 1.3, 1.1, 1.2, 1.3}, false, 1.2, 1.1, 1.3, "worse"},
		{"slower, in any order", []float64{1.3, 1.3, 1.3, 1.2, 1.2, 1.2, 1.1, 1.1, 1.1}, false, 1.2, 1.1, 1.3, "worse"},
		{"quicker", []float64{.5, .5, .6, .6, .7, .7, .8, .8, .9}, false, .7, .5, .8, "better"},
		{"fewer", []float64{.5, .5, .6, .6, .7, .7, .8, .8, .9}, true, .7, .5, .8, "worse"},
		{"more", []float64{1.1, 1.2, 1.3, 1.1, 1.2, 1.3, 1.1, 1.2, 1.3}, true, 1.2, 1.1, 1.3, "better"},
		{"one round is off", []float64{1, 1, 1, 1, 9, 1, 1, 1, 1}, false, 1, 1, 1, "same"},
		{"one slow round is not", []float64{2, 2, 2, 2, .1, 2, 2, 2, 2}, false, 2, 2, 2, "worse"},
		{"two are not", []float64{2, 2, 2, 2, 1, 1, 2, 2, 2}, false, 2, 1, 2, "same"},
		{"within what does not matter", []float64{1.04, 1.04, 1.04, 1.04, 1.04, 1.04}, false, 1.04, 1.04, 1.04, "same"},
		{"partly within", []float64{1.04, 1.2, 1.2, 1.2, 1.2, 1.2}, false, 1.2, 1.04, 1.2, "same"},
		{"partly within, the other way", []float64{.96, .5, .5, .5, .5, .5}, false, .5, .5, .96, "same"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, after := times(tt.ratios...)
			got, err := compare(before, after, tt.higher)
			near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
			if err != nil || !near(got.ratio, tt.ratio) || !near(got.low, tt.low) || !near(got.high, tt.high) ||
				got.verdict != tt.verdict {
				t.Errorf("got %+v, %v; want %v, from %v to %v: %s", got, err, tt.ratio, tt.low, tt.high, tt.verdict)
			}
			if !near(got.before, median(before)) || !near(got.after, median(after)) {
				t.Errorf("medians are %v and %v; want %v and %v", got.before, got.after, median(before), median(after))
			}
		})
	}
}

func TestCompareNothing(t *testing.T) {
	none, some := make([]float64, 6), []float64{1, 1, 1, 1, 1, 1}
	for _, tt := range []struct {
		name          string
		before, after []float64
		want          string // the verdict, or a part of the error
	}{
		{"nothing to nothing", none, none, "same"},
		{"something where nothing was", none, some, "worse"},
		{"nothing where something was", some, none, "better"},
		{"too few", some[:5], some[:5], "5 and 5 values"},
		{"not paired", some, append(some, 1), "6 and 7 values"},
	} {
		got, err := compare(tt.before, tt.after, false)
		if err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && got.verdict != tt.want {
			t.Errorf("%s: %+v, %v; want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestReport(t *testing.T) {
	var text strings.Builder
	slow, quick := times(.5, .5, .5, .5, .5, .5)
	worse, err := report(&text, []*result{
		{"memory", "alone, µs", false, [sides][]float64{slow, quick}},
		{"redis", "hot, /s", true, [sides][]float64{slow, quick}},
	})
	want := `store   scenario   before  after  ratio  95 % interval  verdict
memory  alone, µs  125     62.5   0.50   0.50 to 0.50   better
redis   hot, /s    125     62.5   0.50   0.50 to 0.50   worse
`
	if err != nil || worse != 1 || text.String() != want {
		t.Errorf("%d are worse, %v:\n%s\nwant 1:\n%s", worse, err, text.String(), want)
	}
}

func TestRead(t *testing.T) {
	got, err := read(strings.NewReader(`{"name":"a","value":1.5}` + "\n" + `{"name":"b","value":2,"higher":true}` + "\n"))
	if want := []figure{{"a", 1.5, false}, {"b", 2, true}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("read = %+v, %v; want %+v", got, err, want)
	}
	for _, text := range []string{"panic: no", `{"value":1}`, "{}\n"} {
		if got, err := read(strings.NewReader(text)); err == nil {
			t.Errorf("read %q = %+v, nil; want an error", text, got)
		}
	}
}

func TestStoresOf(t *testing.T) {
	if got, err := storesOf("redis,memory"); err != nil || len(got) != 2 || got[0].key != "redis" || got[1].key != "memory" {
		t.Errorf("stores are %v, %v; want redis and memory", got, err)
	}
	for _, list := range []string{"", "redis,", "oracle"} {
		if got, err := storesOf(list); err == nil {
			t.Errorf("stores of %q are %v; want an error", list, got)
		}
	}
}
