//go:build linux

package main

import (
	"context"
	"fmt"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

const (
	workers = 8   // goroutines of the client whose processor time is measured
	batched = 100 // leases that one request renews
)

// A worked is the processor time of some works, by round.
type worked struct {
	name    string
	of      float64 // requests, or leases, per work
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
	all := []*worked{{name: "a request that does nothing", of: 2, servers: []*servertest.Server{n.server}}}
	for range workers {
		all[0].works = append(all[0].works, n.pair)
	}
	for _, c := range []struct {
		name    string
		servers []*servertest.Server
	}{{"stile over memory://: lock and unlock", []*servertest.Server{memory}}, {"stile over Redis: lock and unlock", []*servertest.Server{redis, r.redis}}} {
		w := &worked{name: c.name, of: 1, servers: c.servers}
		client, err := stile.Open(context.Background(), "stile://"+c.servers[0].Addr, nil)
		if err != nil {
			return err
		}
		defer client.Close()
		for i := range workers {
			w.works = append(w.works, lockAndUnlock(client.Mutex(fmt.Sprint("served/", i))))
		}
		all = append(all, w)
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
	all = append(all, &worked{name: fmt.Sprintf("stile over memory://: a renewal, %d in one request", batched), of: batched,
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
	t := r.page.table("Processor time", fmt.Sprintf("The processor time of the client's process and of the service's, by the kernel's clock of each, where %d "+
		"goroutines of one client lock and unlock a name of their own. A lock and unlock is two requests. The request that does nothing has "+
		"the same bytes, the same client and server of Go's HTTP, and JSON that is decoded and encoded: half of it is the request of a lock, half that of "+
		"an unlock.", workers),
		"work", "client", "service", "both", "÷ a request that does nothing", "store")
	for _, w := range all {
		store := "–"
		if len(w.servers) > 1 {
			store = micros(w.micros(2))
		}
		var ratios, sums []float64
		for i := range w.rounds {
			sums = append(sums, w.both(i))
			ratios = append(ratios, w.both(i)/all[0].both(i))
		}
		t.row(w.name, micros(w.micros(0)), micros(w.micros(1)), micros(median(sums)), times(median(ratios)), store)
		r.say("processor: %s: %s, %s of the request that does nothing", w.name, micros(median(sums)), times(median(ratios)))
		if w == all[1] {
			r.page.target("processor time of a lock and unlock over `memory://`, client and service, ÷ a request that does nothing", median(ratios), atMost, 2.5)
		}
	}
	return nil
}

// renewal enters claims that hold, and returns the work of one request that renews all of them.
func renewal(d driver.Driver) (func() error, error) {
	var claims []*driver.Claim
	for i := range batched {
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
		for _, renewed := range d.Renew(context.Background(), claims) {
			if renewed.Err != nil {
				return renewed.Err
			}
		}
		return nil
	}, nil
}
