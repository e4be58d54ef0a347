//go:build unix

package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/history"
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

func TestPromised(t *testing.T) {
	found := []history.Finding{{At: 1, Text: "before"}, {At: 4, Text: "within"}, {At: 9, Text: "after"}}
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
