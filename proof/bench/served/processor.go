//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// renewed is how many leases one request renews.
const renewed = 100

// workers are the numbers of goroutines of the client whose processor time is measured. One sends a request for each verb, and
// many share requests.
var workers = []int{1, 8, 64}

// A worked is the processor time of some works, by round.
type worked struct {
	name    string
	nothing *worked // the request that does nothing, by as many goroutines
	of      float64 // requests, or leases, per work
	aim     float64 // the most that it should be of nothing; 0: no aim
	works   []func() error
	servers []*servertest.Server // the service, and perhaps its store
	rounds  []*load
}

// micros returns the median of the processor time per request or lease of a process, where the client is process 0.
func (w *worked) micros(process int) float64 {
	return middle(w.rounds, func(l *load) float64 { return l.micros(process) / w.of })
}

// both returns the processor time of client and service in a round.
func (w *worked) both(round int) float64 {
	l := w.rounds[round]
	return (l.micros(0) + l.micros(1)) / w.of
}

// processor measures the processor time of client and service.
func processor(r *run) error {
	memory, redis := r.serve("memory://"), r.overRedis()
	n, err := r.noop(memory.Addr)
	if err != nil {
		return err
	}
	var all []*worked
	nothings := map[int]*worked{}
	for _, count := range workers {
		w := &worked{name: "a request that does nothing, " + goroutines(count), of: 2, servers: []*servertest.Server{n.server}}
		w.nothing, nothings[count] = w, w
		w.works = slices.Repeat([]func() error{n.pair}, count)
		all = append(all, w)
	}
	for _, c := range []struct {
		name    string
		servers []*servertest.Server
		aims    map[int]float64
	}{
		{"memory://", []*servertest.Server{memory}, map[int]float64{1: 2.5}},
		{"Redis", []*servertest.Server{redis, r.redis}, nil},
	} {
		client, err := stile.Open(context.Background(), "stile://"+c.servers[0].Addr, nil)
		if err != nil {
			return err
		}
		defer client.Close()
		for _, count := range workers {
			w := &worked{name: "stile over " + c.name + ": lock and unlock, " + goroutines(count), nothing: nothings[count], of: 1, aim: c.aims[count], servers: c.servers}
			for i := range count {
				w.works = append(w.works, lockAndUnlock(client.Mutex(fmt.Sprint("served/", i))))
			}
			all = append(all, w)
		}
	}
	d, err := driver.Open(context.Background(), "stile://"+memory.Addr)
	if err != nil {
		return err
	}
	defer d.Close()
	renew, err := renewal(d)
	if err != nil {
		return err
	}
	all = append(all, &worked{name: fmt.Sprintf("stile over memory://: a renewal, %d in one request", renewed), of: renewed, nothing: nothings[1],
		works: []func() error{renew}, servers: []*servertest.Server{memory}})
	for range r.rounds {
		for _, w := range all {
			l, err := r.load(w.works, w.servers...)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			w.rounds = append(w.rounds, l)
		}
	}
	r.compare(all)
	return nil
}

// compare writes the table of processor times.
func (r *run) compare(all []*worked) {
	t := r.page.table("Processor time", "The processor time of the client's process and of the service's, by the kernel's clock of each, where some "+
		"goroutines of one client lock and unlock a name of their own. One goroutine sends a request for each verb; many share requests. The request that "+
		"does nothing has the same bytes, the same client and server of Go's HTTP, and JSON that is decoded and encoded: half of it is the request of a lock, "+
		"half that of an unlock. It is compared at the same number of goroutines.",
		"work", "client", "service", "both", "÷ a request that does nothing", "store")
	for _, w := range all {
		store := "–"
		if len(w.servers) > 1 {
			store = micros(w.micros(2))
		}
		var ratios, sums []float64
		for i := range w.rounds {
			sums = append(sums, w.both(i))
			ratios = append(ratios, w.both(i)/w.nothing.both(i))
		}
		t.row(w.name, micros(w.micros(0)), micros(w.micros(1)), micros(median(sums)), times(median(ratios)), store)
		r.say("processor: %s: %s, %s of the request that does nothing", w.name, micros(median(sums)), times(median(ratios)))
		if w.aim > 0 {
			r.page.target("processor time, "+w.name+", ÷ a request that does nothing", median(ratios), atMost, w.aim)
		}
	}
}

func goroutines(n int) string {
	if n == 1 {
		return "1 goroutine"
	}
	return fmt.Sprintf("%d goroutines", n)
}

// renewal enters claims that hold, and returns the work of one request that renews all of them.
func renewal(d driver.Driver) (func() error, error) {
	var claims []*driver.Claim
	for i := range renewed {
		c := &driver.Claim{Name: fmt.Sprint("served/renewed/", i), ID: fmt.Sprint("renewed-", i), Client: "served", Weight: driver.All, Capacity: driver.All,
			TTL: longest, Wait: longest}
		p, err := d.Enter(context.Background(), c)
		if err != nil {
			return nil, err
		}
		c.Ticket = p.Ticket
		claims = append(claims, c)
	}
	return func() error {
		for _, r := range d.Renew(context.Background(), claims) {
			if r.Err != nil {
				return r.Err
			}
		}
		return nil
	}, nil
}
