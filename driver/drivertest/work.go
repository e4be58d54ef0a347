package drivertest

import (
	"fmt"

	"github.com/stilelock/stile/driver"
)

// A Work is a store that nobody else uses, and that counts its work, such as the rows that it reads.
type Work struct {
	// Open connects one more client to the store. The suite closes the client.
	Open func() driver.Driver

	// Settle is called when the store has only one name. The store then does its periodic work, such as updating its
	// statistics.
	Settle func()

	// Done returns the store's work so far. The clients that made this number of calls are closed by then.
	Done func(calls int) int
}

// A Carrier counts the bytes that a [Way] has carried, both ways.
type Carrier interface {
	Carried() int
}

var workCases = []Case{
	{"Work", "What a claim costs the store does not grow with the names that others hold.", 0, flatWork},
}

const (
	others = 100 // names that others hold
	forNew = 20  // the extra work of a new name, such as searches for missing rows
	warm   = 8   // how often a client enters before the count: PostgreSQL's sixth plan is generic
)

func flatWork(r *run) {
	alone, among := r.work(1), r.work(others)
	if among > max(2*alone, alone+forNew*others) {
		r.Errorf("%d claims of two clients on a name each cost %d, and %d if one of them holds %d names meanwhile; want about as much",
			2*others, alone, among, others)
	}
}

// work lets a client repeatedly enter and leave a name, while another client holds many names or uses the one name
// repeatedly. It returns the cost.
func (r *run) work(names int) int {
	var (
		worker, holder driver.Driver
		settle         = func() {}
		done           func(calls int) int
	)
	if r.store.Work != nil {
		w := r.store.Work(r)
		worker, holder, settle, done = w.Open(), w.Open(), w.Settle, w.Done
	} else {
		if r.store.Detour == nil {
			return 0
		}
		d := r.store.detour(r)
		way, ok := d.Way.(Carrier)
		if !ok {
			return 0
		}
		worker, holder, done = d, r.a, func(int) int { return way.Carried() }
	}
	r.pairs(worker, 1)
	settle()
	r.pairs(worker, warm)
	var claims []*driver.Claim
	for i := range others {
		c := r.claim()
		c.Name = fmt.Sprint(r.name, "/", i%names)
		r.holds(holder, c)
		if names == 1 {
			r.leave(holder, c)
		} else {
			claims = append(claims, c)
		}
	}
	r.pairs(worker, others)
	for _, c := range claims {
		r.leave(holder, c)
	}
	if r.store.Work != nil {
		worker.Close()
		holder.Close()
	}
	return done(2 * (1 + warm + 2*others))
}

// pairs enters and leaves a name a number of times.
func (r *run) pairs(d driver.Driver, n int) {
	for range n {
		c := r.claim()
		r.holds(d, c)
		r.leave(d, c)
	}
}
