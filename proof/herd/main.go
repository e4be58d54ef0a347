//go:build linux

// Herd lets many clients of a running lock service wait for one name, and measures what they cost:
//
//	stile serve --url redis://localhost
//	go run ./proof/herd -waiters 10000 -for 1m -pids 4711,4712
//
// The clients come at once and wait while the lock is held. Then it is released, and each client takes it and passes it on.
// Herd prints how many places in the queue were lost, and the processor time and memory of the processes with the given
// ids, such as those of the service and its store. It fails if a place was lost, or if the clients held out of order.
//
// By default a client is a PUT of the simple API that waits. With -go, it is a client of package stile of its own. With -json,
// it prints one JSON value in place of the text.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// A run has the flags.
type run struct {
	at, name string
	waiters  int
	lasts    time.Duration
	within   time.Duration
	pids     []string
	goClient bool
	json     bool
}

// A result is what a run measured.
type result struct {
	Waiters  int
	Came     time.Duration // until all were in the queue
	Waited   time.Duration // after that
	Waiting  []used        // meanwhile, by process
	Passed   time.Duration // from the release until all had held
	Passing  []used        // meanwhile, by process
	Held     int           // clients that held
	Lost     int           // places
	Failed   int           // requests
	Failure  string        // the last
	Disorder int           // clients that held out of order
}

// A used is what a process used for a while.
type used struct {
	Share  float64 // of a core
	Memory int64   // bytes at the end
}

func main() {
	r := &run{name: fmt.Sprintf("herd/%d", os.Getpid())}
	var pids string
	flag.StringVar(&r.at, "at", "127.0.0.1:7845", "the `address` of the service")
	flag.IntVar(&r.waiters, "waiters", 1000, "the `number` of clients that wait")
	flag.DurationVar(&r.lasts, "for", time.Minute, "how long they all wait")
	flag.DurationVar(&r.within, "within", 10*time.Minute, "how long they may take to come, and to pass the lock on")
	flag.StringVar(&pids, "pids", "", "the `ids` of the processes to measure, with commas between")
	flag.BoolVar(&r.goClient, "go", false, "clients of package stile, in place of PUTs")
	flag.BoolVar(&r.json, "json", false, "print one JSON value")
	flag.Parse()
	if pids != "" {
		r.pids = strings.Split(pids, ",")
	}
	if err := r.do(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "herd:", err)
		os.Exit(1)
	}
}

// A herd counts what happens to the clients.
type herd struct {
	mu       sync.Mutex // guards the fields below
	lost     int        // places
	failed   int        // requests
	failure  string     // the last
	token    int64      // of the last grant
	held     int
	disorder int
}

func (h *herd) note(lost, failed int, failure string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost, h.failed = h.lost+lost, h.failed+failed
	if failure != "" {
		h.failure = failure
	}
}

// holds notes that a client holds.
func (h *herd) holds(token int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held++
	if token <= h.token {
		h.disorder++
	}
	h.token = token
}

func (h *herd) lostPlaces() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

func (r *run) do(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	plain := newPlain(r.at, r.name)
	holder, err := plain.take(ctx)
	if err != nil {
		return err
	}
	renewing, stop := context.WithCancel(ctx)
	defer stop()
	var renews sync.WaitGroup
	renews.Go(func() { err = holder.renew(renewing) })

	var h herd
	var clients sync.WaitGroup
	begun := time.Now()
	for range r.waiters {
		clients.Go(func() {
			if r.goClient {
				waitByGo(ctx, r, &h)
			} else {
				plain.wait(ctx, &h)
			}
		})
	}
	if err := plain.until(ctx, r.within, 1+r.waiters); err != nil {
		return fmt.Errorf("%w; %d requests failed: %s", err, h.failed, h.failure)
	}
	res := &result{Waiters: r.waiters, Came: time.Since(begun)}
	r.say("%d clients are in the queue after %v, and %d places were lost until then\n", r.waiters,
		res.Came.Round(time.Millisecond), h.lostPlaces())

	meter := r.meter()
	select {
	case <-time.After(r.lasts):
	case <-ctx.Done():
	}
	res.Waited, res.Waiting = meter()
	for i, u := range res.Waiting {
		r.say("process %s: %.1f %% of a core while they wait, %d MiB\n", r.pids[i], 100*u.Share, u.Memory>>20)
	}
	r.say("%d places were lost in %v\n", h.lostPlaces(), res.Waited.Round(time.Second))

	stop()
	renews.Wait()
	if err == nil {
		err = holder.release(ctx)
	}
	if err != nil {
		return fmt.Errorf("the holder: %w", err)
	}
	meter = r.meter()
	late := time.AfterFunc(r.within, cancel)
	defer late.Stop()
	clients.Wait()
	res.Passed, res.Passing = meter()
	for i, u := range res.Passing {
		r.say("process %s: %.1f %% of a core while they pass the lock on\n", r.pids[i], 100*u.Share)
	}
	res.Held, res.Lost, res.Failed, res.Failure, res.Disorder = h.held, h.lost, h.failed, h.failure, h.disorder
	r.say("%d clients held within %v; %d places were lost in all, and %d requests failed %s\n", h.held,
		res.Passed.Round(time.Millisecond), h.lost, h.failed, h.failure)
	if r.json {
		err = json.NewEncoder(os.Stdout).Encode(res)
	}
	return cmp.Or(res.fault(), err)
}

// say prints a line for people.
func (r *run) say(format string, args ...any) {
	if !r.json {
		fmt.Printf(format, args...)
	}
}

// meter begins to measure the processes, and returns how to end.
func (r *run) meter() func() (time.Duration, []used) {
	before, begun := usages(r.pids), time.Now()
	return func() (time.Duration, []used) {
		took := time.Since(begun)
		var all []used
		for i, after := range usages(r.pids) {
			all = append(all, used{(after.cpu - before[i].cpu).Seconds() / took.Seconds(), after.rss})
		}
		return took, all
	}
}

// fault returns what must not be, or nil.
func (res *result) fault() error {
	switch {
	case res.Lost > 0:
		return errors.New("places were lost")
	case res.Disorder > 0:
		return fmt.Errorf("%d clients held out of order", res.Disorder)
	case res.Held < res.Waiters:
		return fmt.Errorf("%d clients did not hold", res.Waiters-res.Held)
	}
	return nil
}
