//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A plan is what makes a run.
type plan struct {
	store   string
	during  time.Duration
	seed    uint64
	workers int
}

// An outcome is what a run came to.
type outcome struct {
	plan
	grants map[string]int
	faults map[string]int // that were made, by kind
	wrong  []string
}

// A run is a plan that is carried out.
type run struct {
	*plan
	t       servertest.TB
	store   *store
	random  *rand.Rand
	workers []*process
	past    []*process // that were killed
	started uint64
}

// After the last fault, everybody holds again within this, and nothing is left within this after all have gone.
const (
	recovers = time.Minute
	clears   = time.Minute
)

// play carries out a plan.
func play(t servertest.TB, p *plan) *outcome {
	r := &run{plan: p, t: t, store: stores[p.store](t), random: newRandom(p.seed)}
	o := &outcome{plan: *p, grants: map[string]int{}, faults: map[string]int{}}
	for range p.workers {
		r.workers = append(r.workers, nil)
		r.replace(len(r.workers) - 1)
	}
	for end := time.Now().Add(p.during); time.Now().Before(end); {
		f, last, pause := r.next()
		r.wait(pause)
		if what := f.do(r, last); what != "" {
			t.Logf("%s", what)
			o.faults[f.kind]++
		}
	}
	o.wrong = append(o.wrong, r.stuck()...)
	for i, w := range r.workers {
		if !w.leave(recovers) {
			o.wrong = append(o.wrong, fmt.Sprintf("worker %d does not end", i))
		}
	}
	o.wrong = append(o.wrong, r.left()...)
	var holds []*hold
	for _, w := range slices.Concat(r.past, r.workers) {
		for _, text := range w.errors {
			o.wrong = append(o.wrong, "an error that no fault explains: "+text)
		}
		holds = slices.AppendSeq(holds, maps.Values(w.holds))
	}
	for _, h := range holds {
		o.grants[h.name]++
	}
	for name := range capacities {
		if o.grants[name] == 0 {
			o.wrong = append(o.wrong, name+": nobody ever held it, so the run proves nothing")
		}
	}
	o.wrong = append(o.wrong, overlaps(holds, capacities)...)
	if r.fences() {
		o.wrong = append(o.wrong, falls(holds, capacities)...)
	}
	return o
}

// replace starts a worker in the place of one that is gone.
func (r *run) replace(i int) {
	r.started++
	if old := r.workers[i]; old != nil {
		r.past = append(r.past, old)
	}
	w, err := start(int(r.started), r.store.url, r.seed*1000+r.started)
	if err != nil {
		r.t.Fatalf("%v", err)
	}
	r.workers[i] = w
}

// wait lets a fault last.
func (r *run) wait(d time.Duration) { pause(context.Background(), d) }

// client opens one more client, for a look.
func (r *run) client(ctx context.Context) *stile.Client {
	c, err := open(ctx, r.store.url)
	if err != nil {
		r.t.Fatalf("no client can be opened: %v", err)
	}
	return c
}

// stuck returns the names that a new client does not get although there are no faults any more.
func (r *run) stuck() (wrong []string) {
	ctx, cancel := context.WithTimeout(context.Background(), recovers)
	defer cancel()
	c := r.client(ctx)
	defer c.Close()
	for _, l := range []*stile.Lock{c.Mutex(mutexName), c.Writer(rwName), c.Permit(permitName, permits, permits)} {
		lease, err := l.Lock(ctx)
		if err == nil {
			err = lease.Unlock()
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: not to be had within %v after the last fault: %v", l.Name(), recovers, err))
		}
	}
	return wrong
}

// left returns what is in the store although everybody has gone.
func (r *run) left() (wrong []string) {
	ctx, cancel := context.WithTimeout(context.Background(), clears)
	defer cancel()
	c := r.client(ctx)
	defer c.Close()
	for {
		list, err := c.List(ctx, "chaos/")
		if err == nil && len(list) == 0 {
			return nil
		}
		if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return []string{fmt.Sprintf("%v after everybody has gone, the store has %+v (%v)", clears, list, err)}
		}
	}
}

// fences reports whether the store promises that tokens rise through the faults of a run.
func (r *run) fences() bool {
	ctx, cancel := context.WithTimeout(context.Background(), recovers)
	defer cancel()
	c := r.client(ctx)
	defer c.Close()
	t := c.Traits()
	return t.Fencing == driver.DurableFencing || t.Fencing == driver.ClockFencing && t.Restart
}

// err is what is wrong with the run, or nil.
func (o *outcome) err() error {
	if len(o.wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(o.wrong, "\n"))
}

// print tells what a run came to.
func (o *outcome) print(out io.Writer) {
	fmt.Fprintf(out, "%s, seed %d, %d workers, faults for %v\n", o.store, o.seed, o.workers, o.during)
	for _, name := range slices.Sorted(maps.Keys(o.grants)) {
		fmt.Fprintf(out, "  %-16s %7d grants\n", name, o.grants[name])
	}
	for _, kind := range slices.Sorted(maps.Keys(o.faults)) {
		fmt.Fprintf(out, "  %-16s %7d times\n", kind, o.faults[kind])
	}
	for _, w := range o.wrong {
		fmt.Fprintf(out, "  WRONG: %s\n", w)
	}
}
