// Package prove tests a store with clients of its own: processes lock and unlock the same names while they are paused,
// killed and cut off. Then it checks their beliefs.
//
// It touches only these processes, so it can test a store that others use. It finds the effects of failing clients. Failing
// servers are for the runs of the folder chaos, which start servers of their own.
//
// Of the other packages of the command it may import reserve.
package prove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/reserve"
	"github.com/stilelock/stile/internal/boottime"
)

// A Plan describes a run.
type Plan struct {
	Open    func(ctx context.Context) (*stile.Client, error)
	Worker  func(b *Brief) (*exec.Cmd, error) // the command of a process that calls Work; Run's goroutine starts it
	Prefix  string                            // of the locked names
	For     time.Duration                     // how long faults are made; 0 means eight leases, but at least 30 s
	Workers int
	Seed    uint64

	Progress func(text string, left time.Duration)

	lease, bound time.Duration // for tests; 0 means that the store decides
}

const (
	usualTTL  = 3 * time.Second // of the locks, unless the store needs more
	leastFor  = 30 * time.Second
	forLeases = 8
	patience  = 10 * time.Second // with the store, beyond its leases
	goneFor   = 15 * time.Second // a store that does not answer for this long is gone
)

// Bound is the longest time that a step may take in a store, given its shortest lease: the takeover of a lock, the recovery
// after the last fault, and the cleaning.
func Bound(ttl time.Duration) time.Duration { return 3*ttl + patience }

// A run carries out a plan.
type run struct {
	*Plan
	ttl, bound time.Duration
	dir        string
	client     *stile.Client
	random     *rand.Rand
	report     *Report
	workers    []*process // by slot
	started    int
	stops      atomic.Int64 // see still

	mu      sync.Mutex // guards the fields below
	news    chan struct{}
	holds   []*held
	errors  []string
	refused int
}

// Run carries out a plan. The error says why the run could not begin, or why it was ended; an ended run has a report too.
func Run(ctx context.Context, p *Plan) (report *Report, err error) {
	r := &run{
		Plan: p, random: rand.New(rand.NewPCG(p.Seed, 0x7374696c65)), news: make(chan struct{}),
		report: &Report{Begun: time.Now(), Seed: p.Seed, Workers: p.Workers},
	}
	if !boottime.Shared() {
		return nil, errors.New("this system has no clock that all processes share, so that nothing could be proven")
	}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.client.Close()) }()
	if r.dir, err = os.MkdirTemp("", "stile-prove-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(r.dir)
	if err := r.play(ctx); err != nil {
		return nil, err
	}
	r.report.ended(context.Cause(ctx))
	r.report.fromRun(r)
	return r.report, context.Cause(ctx)
}

// open opens the store, and checks that the names can be locked, and that nobody else uses them.
func (r *run) open(ctx context.Context) (err error) {
	if r.client, err = r.Open(ctx); err != nil {
		return err
	}
	t := r.client.Traits()
	r.ttl = min(max(cmp.Or(r.lease, usualTTL), t.MinTTL), t.MaxTTL)
	r.bound = cmp.Or(r.Plan.bound, Bound(r.ttl))
	if r.For == 0 {
		r.For = max(leastFor, forLeases*r.ttl)
	}
	r.report.promised(t, r.ttl, r.For)
	err = reserve.Unused(ctx, r.client, r.Prefix)
	if err == nil {
		err = r.checkFree(ctx, r.bound)
	}
	if err != nil {
		return errors.Join(err, r.client.Close())
	}
	return nil
}

// checkFree locks and unlocks a name that nobody else uses.
func (r *run) checkFree(ctx context.Context, within time.Duration) error {
	lock := r.client.Mutex(r.name("look")).With(stile.LockOptions{TTL: r.ttl, Owner: "stile prove"})
	lease, err := lock.LockWithin(ctx, within)
	if err != nil {
		return err
	}
	return lease.Unlock()
}

func (r *run) name(name string) string { return r.Prefix + "/" + name }

// play starts the workers, makes faults, and checks that nothing is left.
func (r *run) play(ctx context.Context) error {
	r.report.begin = boottime.Now()
	for slot := range r.Workers {
		p, err := r.start(slot)
		if err != nil {
			r.endWorkers(ctx, 0)
			return err
		}
		r.workers = append(r.workers, p)
	}
	faulty, cancel := context.WithCancel(ctx)
	defer cancel()
	var watch sync.WaitGroup
	watching, stop := context.WithCancel(ctx)
	watch.Go(func() { r.watch(watching, cancel) })
	if r.Progress("everybody is to hold", r.bound); r.all(faulty, "the run began") {
		r.faults(faulty)
		r.Progress("everybody is to hold again", r.bound)
		r.all(faulty, "the last fault")
	}
	stop()
	watch.Wait()
	r.Progress("the clients end", r.bound)
	r.endWorkers(ctx, r.bound)
	r.left(ctx)
	r.report.took = boottime.Now() - r.report.begin
	return nil
}

// tries is how often a kind of fault is tried at most until it hits.
const tries = 8

// faults makes the faults: first each kind until it hits, then any.
func (r *run) faults(ctx context.Context) {
	end := boottime.Now() + r.For
	fault := func(kind Kind) *Fault {
		r.Progress("fault "+strconv.Itoa(len(r.report.Faults)+1)+": "+what[kind], max(0, end-boottime.Now()))
		f := r.make(ctx, kind)
		pause(ctx, time.Duration(r.random.IntN(500))*time.Millisecond)
		return f
	}
	for _, kind := range Kinds {
		for range tries {
			if f := fault(kind); f.Hit || f.Final || ctx.Err() != nil {
				break
			}
		}
	}
	for boottime.Now() < end && ctx.Err() == nil {
		fault(Kinds[r.random.IntN(len(Kinds))])
	}
}

// all waits until every worker has held again, and reports whether all have.
func (r *run) all(ctx context.Context, since string) bool {
	after := boottime.Now()
	missing := func() (slots []int) {
		for slot, p := range r.workers {
			if !slices.ContainsFunc(r.holds, func(h *held) bool { return h.process == p && h.Name == dataName && h.Begin > after }) {
				slots = append(slots, slot)
			}
		}
		return slots
	}
	var slots []int
	if r.await(ctx, r.bound, func() bool { slots = missing(); return slots == nil }) {
		return true
	}
	if ctx.Err() == nil {
		for _, slot := range slots {
			r.find("%s: worker %d did not hold within %v after %s", r.name(dataName), slot+1, r.bound, since)
		}
	}
	return false
}

// replace starts a worker in the place of one that is gone.
func (r *run) replace(slot int) {
	p, err := r.start(slot)
	if err != nil {
		r.report.because("worker %d could not be started again: %v", slot+1, err)
		return
	}
	r.workers[slot] = p
}

// endWorkers ends the workers. After an interrupt it does not wait for long.
func (r *run) endWorkers(ctx context.Context, within time.Duration) {
	if ctx.Err() != nil {
		within = min(within, 5*time.Second)
	}
	for _, p := range r.workers {
		p.in.Close()
	}
	for _, p := range r.workers {
		if !p.leave(within) && ctx.Err() == nil {
			r.find("worker %d did not end within %v", p.slot+1, within)
		}
	}
}

// left looks for claims in the store after all workers have ended.
func (r *run) left(ctx context.Context) {
	r.Progress("what is left is looked for", r.bound)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.bound)
	defer cancel()
	for {
		names, err := reserve.Names(ctx, r.client, r.Prefix)
		switch {
		case errors.Is(err, stile.ErrUnsupported):
			r.report.untested("what is left in the store: it cannot list names")
			return
		case err == nil && len(names) == 0:
			return
		}
		pause(ctx, 100*time.Millisecond)
		if ctx.Err() == nil {
			continue
		}
		if len(names) > 0 {
			r.find("%v after everybody has gone, these names are still in use: %q", r.bound, names)
		} else {
			r.report.because("what is left could not be looked for: %v", err)
		}
		return
	}
}

// watch polls the store, and notes when it does not answer. If that lasts too long, watch ends the faults. While a client
// stands still, a silent store proves nothing: others may wait for the client's unfinished request.
func (r *run) watch(ctx context.Context, cancel func()) {
	const every, within = 500 * time.Millisecond, 3 * time.Second
	for ; ctx.Err() == nil; pause(ctx, every) {
		for begin := time.Duration(0); ; pause(ctx, every) {
			stops, at := r.stops.Load(), boottime.Now()
			err := r.checkFree(ctx, within)
			if ctx.Err() != nil || !unanswered(err) || stops%2 == 1 || stops != r.stops.Load() {
				break
			}
			if begin == 0 {
				begin = at
				r.Progress("the store does not answer", goneFor)
			}
			r.report.away(begin, boottime.Now(), err)
			if boottime.Now()-begin > goneFor {
				cancel()
				return
			}
		}
	}
}

// still counts when clients are stopped and continued: the count is odd while they stand still.
func (r *run) still() { r.stops.Add(1) }

func unanswered(err error) bool {
	return errors.Is(err, stile.ErrUnreachable) || errors.Is(err, stile.ErrUnknown) || errors.Is(err, context.DeadlineExceeded)
}

// await waits for a condition. It checks the condition under the mutex after each line of a worker.
func (r *run) await(ctx context.Context, within time.Duration, holds func() bool) bool {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for {
		r.mu.Lock()
		done, news := holds(), r.news
		r.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-news:
		case <-timeout.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// has checks a condition on the workers' reports.
func (r *run) has(it func() bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return it()
}

// find notes that an event did not come in time, unless an outage of the store explains it.
func (r *run) find(format string, args ...any) {
	r.report.late = append(r.report.late, fmt.Sprintf(format, args...))
}
