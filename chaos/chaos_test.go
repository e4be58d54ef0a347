//go:build unix

package main

import (
	"os"
	"slices"
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

// tested are one store of each kind of server and of check. A run of a few seconds takes its servers ten more to start and
// to stop; the other topologies are for make chaos.
var tested = []string{"sqlite", "redis-cluster", "redlock-3", "memcached", "etcd", "zookeeper", "consul", "postgres", "mariadb"}

// TestRuns carries out a short run on some stores. make chaos has longer ones, and docs/explain/chaos.md what came of them.
func TestRuns(t *testing.T) {
	for _, name := range tested {
		if stores[name] == nil {
			t.Errorf("there is no store %s", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := play(t, &plan{store: name, during: 3 * time.Second, seed: 1, workers: 3}).err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFailover has Sentinel replace a primary that is stopped, and sees that the run takes note.
func TestFailover(t *testing.T) {
	t.Parallel()
	const stopsThePrimary = 123
	o := play(t, &plan{store: "redis-sentinel", during: time.Second, seed: stopsThePrimary, workers: 3})
	if err := o.err(); err != nil {
		t.Error(err)
	}
	if o.faults[stopServer] != 1 || o.lax < ttl {
		t.Errorf("the faults were %v, and claims may have been lost for %v; want a failover", o.faults, o.lax)
	}
}

// TestControl sees that a store which locks nothing is found out: each process has one of its own.
func TestControl(t *testing.T) {
	stores["control"] = func(servertest.TB) *store { return (&store{}).at("memory://") }
	defer delete(stores, "control")
	o := play(t, &plan{store: "control", during: 2 * time.Second, seed: 1, workers: 3})
	if err := o.err(); err == nil || !strings.Contains(err.Error(), "two hold that exclude each other") {
		t.Errorf("the run came to %v; want that two hold at once", err)
	}
}

// TestBlindWorkers sees that the faults and the check find workers that trust their leases for too long: one that stands
// still while it holds, for longer than its lease, goes on. Whether it is a holder that stands still is for chance to say.
func TestBlindWorkers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		o := play(t, &plan{
			store: "redis", during: 10 * time.Second, seed: seed + 1, workers: 3, only: []string{stopWorker}, blind: true,
		})
		if err := o.err(); err != nil && strings.Contains(err.Error(), "two hold that exclude each other") {
			return
		}
	}
	t.Error("no run found that two hold at once")
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

func TestPromised(t *testing.T) {
	found := []finding{{at: 1, text: "before"}, {at: 4, text: "within"}, {at: 9, text: "after"}}
	lax := []span{{3, 5}, {4, 6}, {20, 21}}
	wrong, excused := promised(found, lax)
	if !slices.Equal(wrong, []string{"before", "after"}) || !slices.Equal(excused, []string{"within"}) {
		t.Errorf("wrong %q, excused %q; want those before and after, and the one within", wrong, excused)
	}
	if got := covered(lax); got != 4 {
		t.Errorf("%d are covered, want 4", got)
	}
}

// TestScheduleIsItsSeeds sees that one seed draws the same faults each time, and another one others.
func TestScheduleIsItsSeeds(t *testing.T) {
	draw := func(seed uint64) (text string) {
		l := (&run{}).newLane(seed, nil)
		for range 20 {
			f, last, wait := l.next()
			text += f.kind + last.String() + wait.String()
		}
		return text
	}
	if first, again := draw(1), draw(1); first != again || first == draw(2) {
		t.Error("a schedule does not follow from its seed alone")
	}
}
