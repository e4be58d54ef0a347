//go:build unix

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/memory"
)

func TestMain(m *testing.M) {
	isWorker()
	os.Exit(m.Run())
}

// TestRuns carries out a short run on each store. make chaos has longer ones.
func TestRuns(t *testing.T) {
	for name := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := play(t, &plan{store: name, during: 5 * time.Second, seed: 1, workers: 3}).err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestControl sees that a store which locks nothing is found out: each process has one of its own.
func TestControl(t *testing.T) {
	stores["control"] = func(servertest.TB) *store { return &store{url: "memory://"} }
	defer delete(stores, "control")
	o := play(t, &plan{store: "control", during: 2 * time.Second, seed: 1, workers: 3})
	if err := o.err(); err == nil || !strings.Contains(err.Error(), "two hold that exclude each other") {
		t.Errorf("the run came to %v; want that two hold at once", err)
	}
}

func TestOverlaps(t *testing.T) {
	const n = "x"
	h := func(weight int64, begin, end time.Duration) *hold {
		return &hold{name: n, weight: weight, begin: begin, end: end}
	}
	for _, tt := range []struct {
		name     string
		capacity int64
		holds    []*hold
		want     int
	}{
		{"one after the other", driver.All, []*hold{h(driver.All, 1, 2), h(driver.All, 3, 4)}, 0},
		{"out of order", driver.All, []*hold{h(driver.All, 3, 4), h(driver.All, 1, 2)}, 0},
		{"two writers", driver.All, []*hold{h(driver.All, 1, 3), h(driver.All, 2, 4)}, 1},
		{"at one moment", driver.All, []*hold{h(driver.All, 1, 2), h(driver.All, 2, 3)}, 1},
		{"one inside another", driver.All, []*hold{h(driver.All, 1, 9), h(driver.All, 2, 3), h(driver.All, 4, 5)}, 2},
		{"readers", driver.All, []*hold{h(1, 1, 9), h(1, 2, 3), h(1, 4, 5)}, 0},
		{"a writer among readers", driver.All, []*hold{h(1, 1, 9), h(1, 2, 3), h(driver.All, 4, 5)}, 1},
		{"permits", 2, []*hold{h(1, 1, 9), h(1, 2, 3), h(1, 4, 5)}, 0},
		{"one permit too many", 2, []*hold{h(1, 1, 9), h(1, 2, 5), h(1, 4, 5)}, 1},
		{"another name", driver.All, []*hold{h(driver.All, 1, 3), {name: "y", weight: driver.All, begin: 2, end: 4}}, 0},
	} {
		if got := overlaps(tt.holds, map[string]int64{n: tt.capacity}); len(got) != tt.want {
			t.Errorf("%s: %d overlaps, want %d: %v", tt.name, len(got), tt.want, got)
		}
	}
}

func TestFalls(t *testing.T) {
	h := func(weight, token int64, begin, end time.Duration) *hold {
		return &hold{name: "x", weight: weight, token: token, begin: begin, end: end}
	}
	for _, tt := range []struct {
		name  string
		holds []*hold
		want  int
	}{
		{"rising", []*hold{h(driver.All, 1, 1, 2), h(driver.All, 2, 3, 4)}, 0},
		{"falling", []*hold{h(driver.All, 2, 1, 2), h(driver.All, 1, 3, 4)}, 1},
		{"the same twice", []*hold{h(driver.All, 2, 1, 2), h(driver.All, 2, 3, 4)}, 1},
		{"readers among themselves", []*hold{h(1, 2, 1, 2), h(1, 1, 3, 4)}, 0},
		{"a writer after a reader", []*hold{h(1, 2, 1, 2), h(driver.All, 1, 3, 4)}, 1},
		{"a reader after a writer", []*hold{h(driver.All, 2, 1, 2), h(1, 1, 3, 4)}, 1},
	} {
		if got := falls(tt.holds, map[string]int64{"x": driver.All}); len(got) != tt.want {
			t.Errorf("%s: %d falls, want %d: %v", tt.name, len(got), tt.want, got)
		}
	}
}

// TestScheduleIsItsSeeds sees that one seed draws the same faults each time, and another one others.
func TestScheduleIsItsSeeds(t *testing.T) {
	draw := func(seed uint64) (text string) {
		r := &run{random: newRandom(seed)}
		for range 20 {
			f, last, wait := r.next()
			text += f.kind + last.String() + wait.String()
		}
		return text
	}
	if first, again := draw(1), draw(1); first != again || first == draw(2) {
		t.Error("a schedule does not follow from its seed alone")
	}
}
