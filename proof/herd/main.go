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
// By default a client is a PUT of the simple API that waits. With -go, it is a client of package stile of its own.
package main

import (
	"context"
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
	came := time.Since(begun)
	fmt.Printf("%d clients are in the queue after %v, and %d places were lost until then\n", r.waiters,
		came.Round(time.Millisecond), h.lostPlaces())

	before, begun := usages(r.pids), time.Now()
	select {
	case <-time.After(r.lasts):
	case <-ctx.Done():
	}
	waited := time.Since(begun)
	for i, after := range usages(r.pids) {
		fmt.Printf("process %s: %.1f %% of a core while they wait, %d MiB\n", r.pids[i],
			100*(after.cpu-before[i].cpu).Seconds()/waited.Seconds(), after.rss>>20)
	}
	fmt.Printf("%d places were lost in %v\n", h.lostPlaces(), waited.Round(time.Second))

	stop()
	renews.Wait()
	if err == nil {
		err = holder.release(ctx)
	}
	if err != nil {
		return fmt.Errorf("the holder: %w", err)
	}
	before, begun = usages(r.pids), time.Now()
	late := time.AfterFunc(r.within, cancel)
	defer late.Stop()
	clients.Wait()
	passed := time.Since(begun)
	for i, after := range usages(r.pids) {
		fmt.Printf("process %s: %.1f %% of a core while they pass the lock on\n", r.pids[i],
			100*(after.cpu-before[i].cpu).Seconds()/passed.Seconds())
	}
	fmt.Printf("%d clients held within %v; %d places were lost in all, and %d requests failed %s\n", h.held,
		passed.Round(time.Millisecond), h.lost, h.failed, h.failure)
	switch {
	case h.lost > 0:
		return errors.New("places were lost")
	case h.disorder > 0:
		return fmt.Errorf("%d clients held out of order", h.disorder)
	case h.held < r.waiters:
		return fmt.Errorf("%d clients did not hold", r.waiters-h.held)
	}
	return nil
}
