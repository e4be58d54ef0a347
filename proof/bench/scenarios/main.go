//go:build unix

// Scenarios measures one scenario on one store and prints a line of JSON for each figure. make bench-before builds it
// inside each of the two revisions that it compares, so it only uses parts of stile that both have. With -list it prints
// the scenarios of a store.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile"

	_ "github.com/stilelock/stile/store/consul" // the stores that URLs can name
	_ "github.com/stilelock/stile/store/etcd"
	_ "github.com/stilelock/stile/store/memcached"
	_ "github.com/stilelock/stile/store/memory"
	_ "github.com/stilelock/stile/store/mysql"
	_ "github.com/stilelock/stile/store/postgres"
	_ "github.com/stilelock/stile/store/redis"
	_ "github.com/stilelock/stile/store/sqlite"
	_ "github.com/stilelock/stile/store/zookeeper"
)

// A scenario is one way to use locks.
type scenario struct {
	key   string
	local bool // it concerns this process, so only the memory store has it
	run   func(r *run) ([]figure, error)
}

// A figure is a result of a scenario.
type figure struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Higher bool    `json:"higher,omitempty"` // higher is better; otherwise lower is
}

var scenarios = []scenario{
	{"alone", false, alone},
	{"apart-8", false, fewApart},
	{"apart", false, apart},
	{"hot", false, hot},
	{"fleet", false, fleet},
	{"wait-2", false, waiters(2)},
	{"wait-8", false, waiters(8)},
	{"wait-64", false, waiters(64)},
	{"handover", false, handOver},
	{"try", false, try},
	{"readers", true, readers},
	{"linger", true, lingering},
	{"linger-apart", true, lingeringApart},
	{"parallel", true, parallel},
	{"bare", true, bareHandOver},
	{"check", true, check},
	{"allocations", true, allocations},
	{"renewing", true, renewing},
	{"held", true, heldBytes},
	{"waiting", true, waiterBytes},
}

// A run is one scenario on one store.
type run struct {
	url    string
	ttl    time.Duration
	window time.Duration // the measured time
	name   string        // a lock name that was not used before

	did     atomic.Int64 // all turns, also before the window
	clients []*stile.Client
}

// client connects another client.
func (r *run) client() (*stile.Client, error) {
	c, err := stile.Open(context.Background(), r.url, &stile.Options{LockOptions: stile.LockOptions{TTL: r.ttl}})
	if err == nil {
		r.clients = append(r.clients, c)
	}
	return c, err
}

func (r *run) close() error {
	var errs []error
	for _, c := range r.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func main() {
	if err := mainErr(); err != nil {
		fmt.Fprintln(os.Stderr, "scenarios:", err)
		os.Exit(1)
	}
}

func mainErr() error {
	r := &run{name: fmt.Sprintf("scenario-%d-%d", os.Getpid(), time.Now().UnixNano())}
	list := flag.Bool("list", false, "print the scenarios that the store has")
	key := flag.String("run", "", "the `scenario`")
	local := flag.Bool("local", false, "the store is the memory of this process")
	flag.StringVar(&r.url, "url", "memory://scenarios", "where the store is")
	flag.DurationVar(&r.ttl, "ttl", 15*time.Second, "of the leases")
	flag.DurationVar(&r.window, "window", time.Second, "how long is measured")
	flag.Parse()
	for _, s := range scenarios {
		switch {
		case s.local && !*local:
		case *list:
			fmt.Println(s.key)
		case s.key == *key:
			return r.print(s)
		}
	}
	if *list {
		return nil
	}
	return fmt.Errorf("no scenario of this store is called %q", *key)
}

func (r *run) print(s scenario) error {
	before := used()
	figures, err := s.run(r)
	if err := errors.Join(err, r.close()); err != nil {
		return err
	}
	if turns := float64(r.did.Load()); turns > 0 {
		us := float64(used()-before) / float64(time.Microsecond) / turns
		figures = append(figures, figure{Name: "turns", Value: turns}, figure{Name: s.key + ", client's processor µs a turn", Value: us})
	}
	out := json.NewEncoder(os.Stdout)
	for _, f := range figures {
		if err := out.Encode(f); err != nil {
			return err
		}
	}
	return nil
}
