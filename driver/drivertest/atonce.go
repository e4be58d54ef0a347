package drivertest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/stilelock/stile/driver"
)

var atOnceCases = []Case{
	{"AtOnce", "What a client is asked at once on many names is answered to each by what became of its own request.", 0, manyAtOnce},
}

// A busyName is one of many names in which a client makes calls at once.
type busyName struct {
	name  string
	last  int64         // the highest ticket that was given so far
	taken *driver.Claim // of another client; nil while the name is free
	asks  []*driver.Claim
	holds []*driver.Claim // the claims in asks that hold
	gone  []*driver.Claim // claims that are not in the store
}

// manyAtOnce enters claims of one client to many names at once: free names, names that another client holds, and names that
// two claims want. Then all claims leave at once. Among them are claims that are not in the store, also on names that only
// another client holds.
func manyAtOnce(r *run) {
	const names, rounds = 40, 3
	d := r.store.Open(r)
	defer d.Close()
	all := make([]*busyName, names)
	for i := range all {
		all[i] = &busyName{name: fmt.Sprint(r.name, "/", i)}
		c := r.on(all[i].name) // which the client knows from then on
		all[i].last = r.holds(d, c).Ticket
		r.leave(d, c)
	}
	for round := range rounds {
		for i, n := range all {
			n.asks, n.holds, n.gone, n.taken = []*driver.Claim{r.on(n.name)}, nil, nil, nil
			switch (i + round) % 4 {
			case 0:
				n.taken = r.on(n.name)
			case 1:
				n.asks = append(n.asks, r.on(n.name))
			case 2:
				n.taken = r.on(n.name)
				n.gone, n.asks = n.asks, nil
			}
			if n.taken != nil {
				n.last = max(n.last, r.holds(r.b, n.taken).Ticket)
			}
		}
		r.enterAtOnce(d, all)
		r.leaveAtOnce(d, all)
	}
}

// on returns a claim with Try for a name.
func (r *run) on(name string) *driver.Claim {
	c := r.claim()
	c.Name, c.Try = name, true
	return c
}

// enterAtOnce enters all claims at once, and checks who holds.
func (r *run) enterAtOnce(d driver.Driver, all []*busyName) {
	var mu sync.Mutex // guards the fields of the names
	r.atOnce(all, func(n *busyName) []func() {
		var calls []func()
		for _, c := range n.asks {
			calls = append(calls, func() {
				p, err := d.Enter(r.ctx, c)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					r.Errorf("enter, one of many = %v; want a place", err)
				case p.Holds && p.Ticket <= n.last && r.traits.Fencing != driver.NoFencing:
					r.Errorf("enter, one of many, has ticket %d after %d", p.Ticket, n.last)
				case p.Holds:
					c.Ticket = p.Ticket
					n.holds = append(n.holds, c)
				}
			})
		}
		return calls
	})
	for i, n := range all {
		least, most := 1, 1
		switch {
		case n.taken != nil:
			least, most = 0, 0
		case len(n.asks) > 1:
			least = 0 // they may block each other
		}
		if len(n.holds) < least || len(n.holds) > most {
			r.Fatalf("name %d: %d claims of %d hold that enter at once with many, while another client holds it: %v; want %d to %d",
				i, len(n.holds), len(n.asks), n.taken != nil, least, most)
		}
		for _, c := range n.holds {
			n.last = c.Ticket
		}
	}
}

// leaveAtOnce removes all claims at once, including claims that do not hold, and checks which of them were there.
func (r *run) leaveAtOnce(d driver.Driver, all []*busyName) {
	r.atOnce(all, func(n *busyName) []func() {
		var calls []func()
		for _, c := range append(n.gone, n.asks...) {
			calls = append(calls, func() {
				err := d.Leave(r.ctx, &driver.Release{Claim: c})
				if was := len(n.holds) > 0 && n.holds[0] == c; was && err != nil || !was && !errors.Is(err, driver.ErrGone) {
					r.Errorf("leave, one of many, of a claim that holds: %v = %v; want nil if it holds, else ErrGone", was, err)
				}
			})
		}
		return calls
	})
	for i, n := range all {
		next := r.on(n.name)
		if n.taken == nil {
			r.holds(r.b, next)
			r.leave(r.b, next)
			continue
		}
		if r.enter(r.b, next).Holds {
			r.Fatalf("name %d: after many left at once, another holds beside the one that does", i)
		}
		r.leave(r.b, n.taken)
	}
}

// atOnce makes calls on all names at once.
func (r *run) atOnce(all []*busyName, calls func(*busyName) []func()) {
	var asking sync.WaitGroup
	begin := make(chan struct{})
	for _, n := range all {
		for _, call := range calls(n) {
			asking.Go(func() {
				<-begin
				call()
			})
		}
	}
	close(begin)
	asking.Wait()
}
