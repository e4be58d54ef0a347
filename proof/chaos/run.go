//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/history"
	"github.com/stilelock/stile/internal/servertest"
)

// A plan describes a run.
type plan struct {
	store   string
	peer    string // the library that the workers drive; empty for stile itself, with all kinds of its locks
	during  time.Duration
	seed    uint64
	workers int
	pairs   bool // faults of workers are made together with faults of servers

	// The two fields of a control run: the kinds of drawn faults that are made, nil for all, and whether workers believe
	// that they hold even after their leases are over.
	only  []string
	blind bool
}

// An outcome is the result of a run.
type outcome struct {
	plan
	grants map[string]int
	told   int            // the lost grants whose holders learned of the loss
	faults map[string]int // how many were made, by kind
	wrong  []string
	holds  []*history.Hold // the holds that the workers reported

	checked      int                 // operations that were compared with the models
	histories    map[string]operated // the operations, by name
	unordered    []string            // names whose history is in no order
	inconclusive []string            // names whose check took too long
	hits         []hit               // the faults

	guarded *tally        // updates under the tokens of locks that no one shares
	fences  bool          // whether the store's tokens must rise, so that they were checked
	took    time.Duration // from the first fault to the last
	lax     time.Duration // the part of it in which the store did not promise that only one holds
	excused []string      // findings from that part
}

// A run is a plan while it is carried out.
type run struct {
	*plan
	t       servertest.TB
	store   *store
	workers []*process
	past    []*process // processes that were killed
	started uint64
	lax     []span        // times in which claims may have been lost
	looked  time.Duration // when the servers had last settled

	register string // the register's address
}

// Bounds after the last fault: until everybody has held again, and after all have gone, until nothing is left.
const (
	recovers = time.Minute
	clears   = time.Minute
)

// play makes a run of a plan.
func play(t servertest.TB, p *plan) *outcome {
	books, addr, stop := openRegister(t)
	defer stop()
	r := &run{plan: p, t: t, store: stores[p.store](t), looked: boottime.Now(), register: addr}
	o := &outcome{plan: *p, grants: map[string]int{}, faults: map[string]int{}}
	traits := r.traits()
	for range p.workers {
		r.workers = append(r.workers, nil)
		r.replace(len(r.workers) - 1)
	}
	begin := boottime.Now()
	var all sync.WaitGroup
	lanes := r.lanes()
	for _, l := range lanes {
		all.Go(func() {
			for boottime.Now() < begin+p.during {
				l.hit()
			}
		})
	}
	all.Wait()
	for _, l := range lanes {
		maps.Copy(o.faults, l.made)
		o.hits = append(o.hits, l.hits...)
	}
	o.took = boottime.Now() - begin
	o.wrong = append(o.wrong, r.stuck()...)
	for i, w := range r.workers {
		if !w.leave(recovers) {
			o.wrong = append(o.wrong, fmt.Sprintf("worker %d does not end", i))
		}
	}
	r.settle()
	o.wrong = append(o.wrong, r.left()...)
	if r.store.broken != nil {
		o.wrong = append(o.wrong, r.store.broken()...)
	}
	o.guarded = books.sum(fenced)
	o.judge(r, traits)
	return o
}

// settle waits until the servers have settled. If there was a failover, it notes that claims may have been lost at any time
// since the servers had settled before.
func (r *run) settle() {
	if r.store.moved == nil {
		return
	}
	if r.store.moved() {
		r.t.Logf("there was a failover")
		r.loosen(r.looked)
	}
	r.looked = boottime.Now()
}

// loosen notes that claims may have been lost since begin. Their holders find out when their leases end, at the latest.
// Every second time loosen waits until then, so that faults hit the store both before and after it.
func (r *run) loosen(begin time.Duration) {
	r.lax = append(r.lax, span{begin, boottime.Now() + ttl})
	if len(r.lax)%2 == 0 {
		r.wait(ttl)
	}
}

// judge checks the workers' reports.
func (o *outcome) judge(r *run, traits driver.Traits) {
	var grants []*grant
	for _, w := range slices.Concat(r.past, r.workers) {
		for _, text := range w.errors {
			if o.faults[fillMemory] > 0 && strings.Contains(text, noMemory) {
				continue
			}
			o.wrong = append(o.wrong, "an error that no fault explains: "+text)
		}
		grants = slices.AppendSeq(grants, maps.Values(w.holds))
	}
	holds := make([]*history.Hold, 0, len(grants))
	for _, g := range grants {
		holds = append(holds, &g.Hold)
		o.grants[g.Name]++
		if g.fate == gone {
			o.told++
		}
	}
	o.holds = holds
	names := capacities(traits)
	for name := range names {
		if o.grants[name] == 0 {
			o.wrong = append(o.wrong, name+": nobody ever held it, so the run proves nothing")
		}
	}
	found := history.Overlaps(holds, names)
	if o.fences = fences(traits); o.fences {
		found = append(found, history.Falls(holds, names)...)
	}
	if o.fences && len(r.lax) == 0 && o.guarded.Lost > 0 {
		o.wrong = append(o.wrong, fmt.Sprintf("%d of %d updates under a token were lost", o.guarded.Lost, o.guarded.Writes))
	}
	if o.guarded.Writes == 0 {
		o.wrong = append(o.wrong, "nobody updated what a lock guards")
	}
	wrong, excused := promised(found, r.lax)
	for _, text := range excused {
		r.t.Logf("does not count: %s", text)
	}
	o.wrong, o.excused, o.lax = append(o.wrong, wrong...), excused, covered(r.lax)
	o.order(grants, names, r.lax)
}

// replace starts a worker in place of one that has ended.
func (r *run) replace(i int) {
	r.started++
	if old := r.workers[i]; old != nil {
		r.past = append(r.past, old)
	}
	url := r.store.urls[i%len(r.store.urls)]
	if r.peer != "" {
		url = strings.Join(r.store.addrs(), ",")
	}
	w, err := start(int(r.started), &brief{url, r.seed*1000 + r.started, r.blind, r.peer, r.register})
	if err != nil {
		r.t.Fatalf("%v", err)
	}
	r.t.Logf("worker %d is process %d", i, w.cmd.Process.Pid)
	r.workers[i] = w
}

// wait lets a fault last for a while.
func (r *run) wait(d time.Duration) { pause(context.Background(), d) }

// client opens another client, for checks.
func (r *run) client(ctx context.Context) *stile.Client {
	c, err := open(ctx, r.store.urls[0])
	if err != nil {
		r.t.Fatalf("no client can be opened: %v", err)
	}
	return c
}

// stuck returns the names that a new client cannot lock although the faults are over.
func (r *run) stuck() (wrong []string) {
	ctx, cancel := context.WithTimeout(context.Background(), recovers)
	defer cancel()
	c := r.client(ctx)
	defer c.Close()
	return notHad(c, "after the last fault")
}

// notHad returns the names that a client cannot lock as a whole, and the claims that are in its way.
func notHad(c *stile.Client, when string) (wrong []string) {
	for _, l := range wholes(c) {
		if err := had(l); err != nil {
			ctx, cancel := context.WithTimeout(context.Background(), recovers)
			queue, _ := c.Show(ctx, l.Name())
			cancel()
			wrong = append(wrong, fmt.Sprintf("%s: not to be had within %v %s: %v\n    %+v", l.Name(), recovers, when, err, queue))
		}
	}
	return wrong
}

// had locks and unlocks. If the store is slow to answer the release, that does not matter here.
func had(l *stile.Lock) error {
	ctx, cancel := context.WithTimeout(context.Background(), recovers)
	defer cancel()
	return insist(ctx, func() error {
		lease, err := l.Lock(ctx)
		if err != nil {
			return err
		}
		if err := lease.Unlock(); !expected(err) {
			return err
		}
		return nil
	})
}

// insist repeats a call until it succeeds or ctx ends: on a busy machine a store that has just started may take longer for
// one call than a client waits.
func insist(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil || !expected(err) || ctx.Err() != nil {
			return err
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// left returns the claims in the store after all workers have ended.
func (r *run) left() (wrong []string) {
	ctx, cancel := context.WithTimeout(context.Background(), clears)
	defer cancel()
	c := r.client(ctx)
	defer c.Close()
	if wrong := notHad(c, "after everybody has gone"); wrong != nil {
		return wrong
	}
	for {
		var rest []string
		list, err := c.List(ctx, "chaos/")
		if errors.Is(err, stile.ErrUnsupported) {
			err = nil // it was enough to lock each name
		}
		if r.store.rest != nil {
			rest = r.store.rest()
		}
		if err == nil && len(list) == 0 && len(rest) == 0 {
			return nil
		}
		if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return []string{fmt.Sprintf("%v after everybody has gone, the store has %+v %q (%v)", clears, list, rest, err)}
		}
	}
}

// traits asks the store for its promises, before the first fault.
func (r *run) traits() driver.Traits {
	ctx, cancel := context.WithTimeout(context.Background(), recovers)
	defer cancel()
	c := r.client(ctx)
	defer c.Close()
	return c.Traits()
}

// fences reports whether a store promises that tokens rise through the faults of a run.
func fences(t driver.Traits) bool {
	return t.Fencing == driver.DurableFencing || t.Fencing == driver.ClockFencing && t.Restart
}

// err returns the violations of the run and the checks without a result, or nil.
func (o *outcome) err() error {
	if len(o.wrong)+len(o.inconclusive) == 0 {
		return nil
	}
	return errors.New(strings.Join(slices.Concat(o.wrong, o.inconclusive), "\n"))
}

// print prints the outcome of a run.
func (o *outcome) print(out io.Writer) {
	fmt.Fprintf(out, "%s, seed %d, %d workers, faults for %v\n", o.store, o.seed, o.workers, o.during)
	for _, name := range slices.Sorted(maps.Keys(o.grants)) {
		fmt.Fprintf(out, "  %-16s %7d grants\n", name, o.grants[name])
	}
	for _, kind := range slices.Sorted(maps.Keys(o.faults)) {
		fmt.Fprintf(out, "  %-16s %7d times\n", kind, o.faults[kind])
	}
	if o.told > 0 {
		fmt.Fprintf(out, "  %d holders were told that their locks are gone\n", o.told)
	}
	if !o.fences {
		fmt.Fprintln(out, "  tokens were not looked at: the store promises none that rise")
	}
	if o.lax > 0 {
		fmt.Fprintf(out, "  for %v of %v claims may have been lost, and %d findings of that time do not count\n",
			o.lax.Round(time.Second), o.took.Round(time.Second), len(o.excused))
	}
	if o.guarded != nil && o.fences {
		fmt.Fprintf(out, "  %d updates under a token, %d lost, %d refused\n", o.guarded.Writes, o.guarded.Lost, o.guarded.Refused)
	}
	fmt.Fprintf(out, "  %d operations were held to the models of the names\n", o.checked)
	for _, w := range o.inconclusive {
		fmt.Fprintf(out, "  INCONCLUSIVE: %s\n", w)
	}
	for _, w := range o.wrong {
		fmt.Fprintf(out, "  WRONG: %s\n", w)
	}
}
