//go:build unix

package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAdmin has an administrator make each fault on a store that has it. The store must keep its promises then too, and a
// holder must learn that its claim was deleted. Chance decides whether a fault hits a holder.
func TestAdmin(t *testing.T) {
	for _, tt := range []struct{ store, kind string }{
		{"redis", killConnections}, {"postgres", killConnections}, {"mariadb", killConnections},
		{"redis", deleteClaim}, {"memcached", deleteClaim}, {"etcd-1", deleteClaim}, {"serve", deleteClaim},
		{"redis", fillMemory},
	} {
		t.Run(tt.store+"/"+tt.kind, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(10) {
				o := play(t, &plan{store: tt.store, during: 5 * time.Second, seed: seed + 1, workers: 3, only: []string{tt.kind}})
				if err := o.err(); err != nil {
					t.Fatal(err)
				}
				if o.faults[tt.kind] > 0 && (tt.kind != deleteClaim || o.told > 0) {
					return
				}
			}
			t.Error("no run of ten had the fault, with a holder who was told")
		})
	}
}

// TestAdminIsNamed checks that a schedule has an administrator's faults only if the plan names them, so that a seed keeps
// its schedule.
func TestAdminIsNamed(t *testing.T) {
	draw := func(only []string) (text []string) {
		l := (&run{}).newLane(1, only)
		for range 200 {
			f, _, _ := l.next()
			text = append(text, f.kind)
		}
		return text
	}
	if got := draw(nil); slices.Contains(got, killConnections) || !slices.Equal(got, draw([]string{killServer})) {
		t.Error("a fault of an administrator is drawn, or the schedule depends on the kinds, though none of these is named")
	}
	got := draw([]string{deleteClaim})
	for _, kind := range kinds(slices.Concat(faults, administered)) {
		if !slices.Contains(got, kind) {
			t.Errorf("%q is not drawn though a fault of an administrator is named", kind)
		}
	}
	const first = "kill a worker,stop a worker"
	r := &run{plan: &plan{pairs: true}}
	for _, l := range r.lanes() {
		if slices.Contains(l.only, killConnections) {
			t.Errorf("a pair makes %q; want none of an administrator", l.only)
		}
	}
	if got := strings.Join(r.lanes()[1].only, ","); got != first {
		t.Errorf("the lane of workers makes %q; want %q", got, first)
	}
}
