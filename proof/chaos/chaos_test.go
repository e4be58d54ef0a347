//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/history"
	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/store/memory"
)

func TestMain(m *testing.M) {
	isWorker()
	os.Exit(m.Run())
}

// tested are one store of each kind of server and of check. A run of a few seconds needs ten more to start and stop its
// servers; make chaos runs the other topologies.
var tested = []string{"sqlite", "redis-cluster", "redlock-3", "memcached", "etcd", "zookeeper", "consul", "postgres", "mariadb", "serve"}

// sure are faults that a short run must have on a store: the table of faults cites it, or one of three members must be
// silent. The seed of the run is the first that starts with the fault, for longer than a lease.
var sure = map[string]string{"etcd": stopServer, "zookeeper": stopServer, "redlock-3": stopServer, "mariadb": stopServer}

// drawing returns a seed whose first fault is of this kind and lasts longer than a lease.
func drawing(kind string) (seed uint64) {
	for seed = 1; ; seed++ {
		if f, last, _ := (&run{}).newLane(seed, nil).next(); f.kind == kind && last > ttl {
			return seed
		}
	}
}

// TestRuns carries out a short run on some stores. make chaos has longer ones, and docs/explain/chaos.md their results.
func TestRuns(t *testing.T) {
	for _, name := range tested {
		if stores[name] == nil {
			t.Errorf("there is no store %s", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &plan{store: name, during: 3 * time.Second, seed: 1, workers: 3}
			kind := sure[name]
			if kind != "" {
				p.seed = drawing(kind)
			}
			o := play(t, p)
			if err := o.err(); err != nil {
				t.Error(err)
			}
			if kind != "" && o.faults[kind] == 0 {
				t.Errorf("the faults were %v; want one of the kind %s", o.faults, kind)
			}
		})
	}
}

// TestFailover has Sentinel replace a stopped primary, and checks that the run reports it.
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

// TestControl checks that the run detects a store which locks nothing: each process has a store of its own.
func TestControl(t *testing.T) {
	stores["control"] = func(servertest.TB) *store { return (&store{}).at("memory://") }
	defer delete(stores, "control")
	o := play(t, &plan{store: "control", during: 2 * time.Second, seed: 1, workers: 3})
	if err := o.err(); err == nil || !strings.Contains(err.Error(), "two hold that exclude each other") {
		t.Errorf("the run came to %v; want that two hold at once", err)
	}
	if err := o.err(); err == nil || !strings.Contains(err.Error(), "are in no order") {
		t.Errorf("the run came to %v; want that the operations are in no order", err)
	}
}

// TestBlindWorkers checks that a run detects workers that trust their leases for too long: a worker that was stopped while
// it held, for longer than its lease, goes on. Chance decides whether the fault stops a holder.
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

// TestScheduleIsItsSeeds checks that a seed always has the same faults, and another seed others.
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

// TestInsist checks that insist repeats a call after an error that a slow store explains, until its time is over, and after
// no other.
func TestInsist(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	strange := errors.New("strange")
	for _, tt := range []struct {
		name  string
		ctx   context.Context
		says  []error
		want  error
		tries int
	}{
		{"at once", t.Context(), []error{nil}, nil, 1},
		{"the second time", t.Context(), []error{stile.ErrUnreachable, nil}, nil, 2},
		{"no fault explains it", t.Context(), []error{strange}, strange, 1},
		{"not in time", over, []error{stile.ErrUnknown}, stile.ErrUnknown, 1},
	} {
		tries := 0
		got := insist(tt.ctx, func() error { tries++; return tt.says[tries-1] })
		if !errors.Is(got, tt.want) || tries != tt.tries {
			t.Errorf("%s: %v after %d tries; want %v after %d", tt.name, got, tries, tt.want, tt.tries)
		}
	}
}

// TestPlans checks that a plan that cannot run is refused.
func TestPlans(t *testing.T) {
	good := plan{during: time.Minute, workers: 2, only: []string{killServer}}
	if err := good.check(true); err != nil {
		t.Errorf("a good plan: %v", err)
	}
	for want, p := range map[string]plan{
		"at most 1h0m0s":            {during: 2 * time.Hour, workers: 4},
		"for more than 0s":          {workers: 4},
		"two processes":             {during: time.Minute, workers: 1},
		`-faults "kill" is none of`: {during: time.Minute, workers: 4, only: []string{"kill"}},
	} {
		if err := p.check(true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", p, err, want)
		}
	}
	if err := good.check(false); err == nil || !strings.Contains(err.Error(), "a soak needs a bound") {
		t.Errorf("a soak without a bound: %v", err)
	}
}

// TestFewer checks that fewer leaves out the faults that a failure does not need, within its limit of runs.
func TestFewer(t *testing.T) {
	runs := 0
	needs := func(list ...string) func([]string) bool {
		return func(only []string) bool {
			runs++
			return !slices.ContainsFunc(list, func(k string) bool { return !slices.Contains(only, k) })
		}
	}
	if got := fewer([]string{"a", "b", "c", "d"}, 10, needs("b", "d")); !slices.Equal(got, []string{"b", "d"}) || runs != 4 {
		t.Errorf("what is left is %q after %d runs; want b and d after 4", got, runs)
	}
	if got := fewer([]string{"a", "b", "c", "d"}, 1, needs("d")); !slices.Equal(got, []string{"b", "c", "d"}) {
		t.Errorf("after one run %q is left; want b, c and d", got)
	}
}

// TestKept checks that a run is appended to a log and its history saved.
func TestKept(t *testing.T) {
	o := &outcome{plan: plan{store: "redis", seed: 7, during: time.Minute, workers: 4}, grants: map[string]int{"a": 2, "b": 3},
		faults: map[string]int{killServer: 4}, checked: 9, wrong: []string{"two hold"},
		holds: []*history.Hold{{Worker: 2, Name: "a", Begin: 5}, {Worker: 1, Name: "a", Begin: 3}}}
	log := t.TempDir() + "/soak.log"
	for range 2 {
		if err := o.note(log); err != nil {
			t.Fatal(err)
		}
	}
	const want = "redis seed=7 for=1m0s pairs=false workers=4 faults=4 holds=5 checked=9 lax=0s excused=0 findings=1\n"
	if got, err := os.ReadFile(log); err != nil || string(got) != want+want {
		t.Errorf("the log has %q (%v); want %q twice", got, err, want)
	}
	path, err := o.save(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(path)
	if one, two := strings.Index(string(got), "worker 1"), strings.Index(string(got), "worker 2"); !strings.Contains(string(got), "WRONG: two hold") || one < 0 || two < one {
		t.Errorf("the history is %q", got)
	}
	if err := o.note(t.TempDir() + "/none/soak.log"); err == nil {
		t.Error("a log that cannot be written is no error")
	}
}
