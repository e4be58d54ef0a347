package shard

import (
	"fmt"
	"math"
	"testing"
)

// listOf returns a list of stores, from their names and weights.
func listOf(stores map[string]int) list {
	var l list
	for name, weight := range stores {
		l = append(l, newMember(&store{name: name}, weight))
	}
	return l
}

const many = 100_000

func nameOf(i int) string { return fmt.Sprintf("orders/%d", i) }

// All versions of all clients must agree on the places of names, so these never change.
func TestPlacesAreThoseAgreedOn(t *testing.T) {
	l := listOf(map[string]int{"a": 1, "b": 1, "c": 2})
	for name, want := range map[string]string{
		"":          "b",
		"orders/42": "a",
		"deploy":    "b",
		"é":         "c",
		"🔒":         "b",
		"a":         "c",
		"b":         "b",
		"report":    "c",
	} {
		if got := l.home(name).name; got != want {
			t.Errorf("%q is in store %s; want %s", name, got, want)
		}
	}
}

// Each store has its share of the names, within the bounds of chance.
func TestPlacesAreEven(t *testing.T) {
	t.Parallel()
	for _, weights := range []map[string]int{
		{"a": 1, "b": 1},
		{"redis-1": 1, "redis-2": 1, "redis-3": 1},
		{"s0": 1, "s1": 1, "s2": 1, "s3": 1, "s4": 1, "s5": 1, "s6": 1, "s7": 1, "s8": 1, "s9": 1},
		{"small": 1, "large": 3},
		{"one": 1, "two": 2, "hundred": MaxWeight},
	} {
		l, sum, got := listOf(weights), 0, map[string]int{}
		for _, w := range weights {
			sum += w
		}
		for i := range many {
			got[l.home(nameOf(i)).name]++
		}
		for name, w := range weights {
			p := float64(w) / float64(sum)
			want, deviation := many*p, math.Sqrt(many*p*(1-p))
			if off := math.Abs(float64(got[name]) - want); off > 5*deviation {
				t.Errorf("%v: store %s has %d names; want %.0f, or at most %.0f off", weights, name, got[name], want, 5*deviation)
			}
		}
	}
}

// A name moves only to a new store, from a removed one, or to or from one whose weight changed.
func TestPlacesMoveLittle(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what          string
		before, after map[string]int
		to, from      string  // where names may move to, or from
		share         float64 // of the names that move
	}{
		{"a store comes", map[string]int{"a": 1, "b": 1, "c": 1}, map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, "d", "", 1. / 4},
		{"a store goes", map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, map[string]int{"a": 1, "c": 1, "d": 1}, "", "b", 1. / 4},
		{"a heavy store comes", map[string]int{"a": 1, "b": 1}, map[string]int{"a": 1, "b": 1, "c": 2}, "c", "", 1. / 2},
		{"a weight grows", map[string]int{"a": 1, "b": 1}, map[string]int{"a": 1, "b": 2}, "b", "", 2./3 - 1./2},
		{"a weight shrinks", map[string]int{"a": 3, "b": 1}, map[string]int{"a": 1, "b": 1}, "", "a", 3./4 - 1./2},
		{"nothing", map[string]int{"a": 3, "b": 1}, map[string]int{"b": 1, "a": 3}, "", "", 0},
	}
	for _, test := range tests {
		before, after, moved := listOf(test.before), listOf(test.after), 0
		for i := range many {
			from, to := before.home(nameOf(i)).name, after.home(nameOf(i)).name
			if from == to {
				continue
			}
			moved++
			if test.to != "" && to != test.to || test.from != "" && from != test.from {
				t.Errorf("%s: %s moves from %s to %s", test.what, nameOf(i), from, to)
			}
		}
		want, deviation := many*test.share, math.Sqrt(many*test.share*(1-test.share))
		if off := math.Abs(float64(moved) - want); off > 5*deviation {
			t.Errorf("%s: %d names move; want %.0f, or at most %.0f off", test.what, moved, want, 5*deviation)
		}
	}
}

func BenchmarkHome(b *testing.B) {
	l := listOf(map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1})
	for b.Loop() {
		l.home("orders/42")
	}
}
