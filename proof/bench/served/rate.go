//go:build linux

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/stilelock/stile"
)

const lease = 15 * time.Second // of all locks where nothing else is said

// A contender locks and unlocks.
type contender struct {
	name  string
	lock  func(name string) (func() error, error)
	rates map[int][]float64 // per round, by the number of clients
}

// rate measures locks and unlocks per second beside Consul's own agent.
func rate(r *run) error {
	agent, _, err := r.consul()
	if err != nil {
		return err
	}
	var all []*contender
	for _, c := range []struct{ name, store string }{
		{"stile over Redis", r.direct()}, {"stile over SQLite", "sqlite://" + filepath.Join(r.dir, "served.db")},
	} {
		client, err := stile.Open(context.Background(), "stile://"+r.serve(c.store).Addr, &stile.Options{LockOptions: stile.LockOptions{TTL: lease}})
		if err != nil {
			return err
		}
		defer client.Close()
		all = append(all, &contender{name: c.name, lock: func(name string) (func() error, error) { return lockAndUnlock(client.Mutex(name)), nil }})
	}
	own := &contender{name: "consul/api", lock: func(name string) (func() error, error) { return consulLock(agent, name, "") }}
	all = append(all, own, &contender{name: "consul/api, one session per client", lock: func(name string) (func() error, error) {
		session, _, err := agent.Session().Create(&api.SessionEntry{TTL: time.Hour.String(), LockDelay: time.Millisecond}, nil)
		if err != nil {
			return nil, err
		}
		return consulLock(agent, name, session)
	}})
	clients := []int{1, 8, 64}
	works := map[*contender][]func() error{}
	for _, c := range all {
		c.rates = map[int][]float64{}
		for i := range clients[len(clients)-1] {
			work, err := c.lock(fmt.Sprint("served/rate/", i))
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			works[c] = append(works[c], work)
		}
	}
	for range r.rounds {
		for _, n := range clients {
			for _, c := range all {
				l, err := r.load(works[c][:n])
				if err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				c.rates[n] = append(c.rates[n], l.rate())
			}
		}
	}
	r.rates(all, own, clients)
	return nil
}

// rates writes the rates of the contenders, and their ratios to those of one of them.
func (r *run) rates(all []*contender, own *contender, clients []int) {
	t := r.page.table("Locks and unlocks a second", "Each client locks and unlocks a name of its own, which nobody else wants. `consul/api` is the Lock of Consul's "+
		"own client at Consul's own agent, as it comes, with a session for each lock; in the last row each client keeps one session, which is not renewed. "+
		"Clients, service and store share the cores.",
		"contender", "1 client", "8 clients", "64 clients", "÷ consul/api, 1", "÷ consul/api, 8", "÷ consul/api, 64")
	for _, c := range all {
		cells, quotients := []string{c.name}, []string{}
		var ratios []float64
		for _, n := range clients {
			each := make([]float64, r.rounds)
			for i := range each {
				each[i] = c.rates[n][i] / own.rates[n][i]
			}
			ratios = append(ratios, median(each))
			cells, quotients = append(cells, grouped(median(c.rates[n]), 0)), append(quotients, times(median(each)))
		}
		t.row(append(cells, quotients...)...)
		r.say("rate: %s: %v, %v of consul/api", c.name, cells[1:], quotients)
		if c == all[0] || c == all[1] {
			r.page.target("locks and unlocks a second, "+c.name+" ÷ consul/api, the least of 1, 8 and 64 clients", min(ratios[0], ratios[1], ratios[2]), atLeast, 2)
		}
	}
}

// consulLock returns the work of one client of Consul, with a session of its own or one that is made beforehand.
func consulLock(c *api.Client, name, session string) (func() error, error) {
	l, err := c.LockOpts(&api.LockOptions{Key: name + "/.lock", Session: session, SessionTTL: lease.String(), LockDelay: time.Millisecond})
	if err != nil {
		return nil, err
	}
	return func() error {
		if _, err := l.Lock(nil); err != nil {
			return err
		}
		return l.Unlock()
	}, nil
}
