//go:build unix

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/history"
	"github.com/stilelock/stile/internal/servertest"
)

// A figures is the result of one run with a peer.
type figures struct {
	Seed    uint64
	For     time.Duration
	Workers int
	Faults  map[string]int

	Holds      int
	Told       int           // holds that ended because the library reported a loss
	Overlaps   int           // holds that began while another one lasted
	Longest    time.Duration // the longest time that the earlier hold of two went on
	Falls      int           `json:",omitempty"` // how often a token was smaller than an earlier one
	Order      string        // Porcupine's verdict on the whole history
	Operations int

	Plain, Asked *tally
	Fenced       *tally `json:",omitempty"` // nil if the library gives no tokens

	Bound  time.Duration // bound of the times in which somebody waited and nobody held
	Slept  int           // how many of these times were longer
	Asleep time.Duration // the longest of these times

	Waiters int
	Again   int           // waiters that held again after the last fault
	After   time.Duration // time from the last fault until the last of them held
	Hung    int           // processes that did not end
	Left    []string      `json:",omitempty"` // keys that were left in the store after all processes had gone
}

// leeway is how much longer than the lease somebody may wait although nobody holds, and a key may be left.
const leeway = 5 * time.Second

// begins is how long workers may take to start. Each worker for Java needs some seconds of a processor.
const begins = 5 * time.Minute

// playPeer makes a run of a plan with a peer.
func playPeer(t servertest.TB, p *plan) (f *figures, servers string) {
	library := peers[p.peer]
	books, addr, stop := openRegister(t)
	defer stop()
	r := &run{plan: p, t: t, store: stores[p.store](t), looked: boottime.Now(), register: addr}
	servers, _ = library.left(r.store)
	for range p.workers {
		r.workers = append(r.workers, nil)
		r.replace(len(r.workers) - 1)
	}
	if !r.atWork() {
		t.Fatalf("-peer %s: not every worker has begun within %v", p.peer, begins)
	}
	r.wait(time.Second) // the workers work without faults
	begin := boottime.Now()
	lane := r.newLane(r.seed, r.only)
	for boottime.Now() < begin+p.during {
		lane.hit()
	}
	f = &figures{Seed: p.seed, For: p.during, Workers: p.workers, Faults: lane.made, Bound: library.lease + leeway, Waiters: p.workers * waiters}
	calm := boottime.Now()
	for f.Again < f.Waiters && boottime.Now() < calm+recovers {
		r.wait(10 * time.Millisecond)
		f.Again, f.After = served(r.workers, calm), boottime.Now()-calm
	}
	end := boottime.Now()
	f.Hung = leaveAll(r.workers)
	f.measure(r, spansOf(lane.hits), end)
	f.Plain, f.Asked = books.sum(plain), books.sum(asked)
	if library.token != "" {
		f.Fenced = books.sum(fenced)
	}
	f.Left = library.remains(r.store)
	return f, servers
}

// atWork waits until each worker has begun; a worker for Java takes some seconds.
func (r *run) atWork() bool {
	for end := boottime.Now() + begins; boottime.Now() < end; r.wait(10 * time.Millisecond) {
		if !slices.ContainsFunc(r.workers, func(p *process) bool { return !p.begun() }) {
			return true
		}
	}
	return false
}

// leaveAll ends all workers at the same time, and returns how many did not end.
func leaveAll(workers []*process) (hung int) {
	var (
		all sync.WaitGroup
		mu  sync.Mutex // guards hung
	)
	for _, w := range workers {
		all.Go(func() {
			if !w.leave(recovers) {
				mu.Lock()
				hung++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return hung
}

func spansOf(hits []hit) (list []span) {
	for _, h := range hits {
		list = append(list, h.span)
	}
	return list
}

// measure computes the figures from the workers' reports.
func (f *figures) measure(r *run, faults []span, end time.Duration) {
	all := slices.Concat(r.past, r.workers)
	var grants []*grant
	for _, w := range all {
		grants = slices.AppendSeq(grants, maps.Values(w.holds))
	}
	o := &outcome{plan: *r.plan, fences: peers[r.peer].token != ""}
	names := map[string]int64{}
	for _, name := range peerNames {
		names[name] = driver.All
		n, longest := slept(idle(waitsOf(all, name, end), holdsOf(grants, name), faults), f.Bound)
		f.Slept, f.Asleep = f.Slept+n, max(f.Asleep, longest)
	}
	for _, g := range grants {
		o.holds = append(o.holds, &g.Hold)
		if g.fate == gone {
			f.Told++
		}
	}
	f.Holds = len(grants)
	f.Overlaps, f.Longest = together(o.holds)
	if o.fences {
		f.Falls = len(history.Falls(o.holds, names))
	}
	o.order(grants, names, nil)
	f.Operations = o.checked
	switch {
	case len(o.wrong) > 0:
		f.Order = "no order"
	case len(o.inconclusive) > 0:
		f.Order = "not found out"
	default:
		f.Order = "in order"
	}
}

// print prints the figures.
func (f *figures) print(out io.Writer, p *plan) {
	fmt.Fprintf(out, "%s on %s, seed %d, %d workers, faults for %v\n", p.peer, p.store, f.Seed, f.Workers, f.For)
	for _, kind := range slices.Sorted(maps.Keys(f.Faults)) {
		fmt.Fprintf(out, "  %-16s %7d times\n", kind, f.Faults[kind])
	}
	fmt.Fprintf(out, "  %d holds, %d told of their loss; %d overlap, for %v at most; %d operations %s\n",
		f.Holds, f.Told, f.Overlaps, f.Longest, f.Operations, f.Order)
	fmt.Fprintf(out, "  updates lost without asking: %d of %d; after asking: %d of %d\n", f.Plain.Lost, f.Plain.Writes, f.Asked.Lost, f.Asked.Writes)
	if f.Fenced != nil {
		fmt.Fprintf(out, "  updates lost with tokens: %d of %d, %d refused; %d tokens fell\n", f.Fenced.Lost, f.Fenced.Writes, f.Fenced.Refused, f.Falls)
	}
	fmt.Fprintf(out, "  longest wait while nobody held: %v; %d longer than %v\n", f.Asleep, f.Slept, f.Bound)
	fmt.Fprintf(out, "  %d of %d waiters held again within %v; %d processes hung\n", f.Again, f.Waiters, f.After, f.Hung)
	fmt.Fprintf(out, "  left in the store: %q\n", f.Left)
}

// A leftover asks the servers of a store directly, not through the proxies, for their version and their keys.
type leftover func(s *store) (version string, kept []string)

// remains returns the keys that are still in the store a lease after everybody has gone.
func (p *peer) remains(s *store) (kept []string) {
	for end := boottime.Now() + p.lease + leeway; ; time.Sleep(100 * time.Millisecond) {
		if _, kept = p.left(s); len(kept) == 0 || boottime.Now() > end {
			return kept
		}
	}
}

// leftInRedis returns the keys of Redis servers.
func leftInRedis(s *store) (version string, kept []string) {
	for _, server := range s.servers {
		found, _ := server.Redis([]string{"KEYS", "*"}).([]any)
		for _, key := range found {
			kept = append(kept, fmt.Sprint(key))
		}
	}
	slices.Sort(kept)
	return "Redis " + s.servers[0].RedisInfo("redis_version"), kept
}
