//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

// A fault does something to a worker, a server or a connection, and puts it right again. It says what it did.
type fault struct {
	kind string
	do   func(r *run, d time.Duration) (what string)
}

// A member is hit with the requests that it answers; the others go on.
func (r *run) member() (int, bool) {
	if len(r.store.servers) == 0 {
		return 0, false
	}
	return r.random.IntN(len(r.store.servers)), true
}

// faults are what a schedule is made of.
var faults = []fault{
	{"kill a worker", func(r *run, _ time.Duration) string {
		i := r.random.IntN(len(r.workers))
		r.workers[i].kill()
		r.replace(i)
		return fmt.Sprintf("worker %d is killed", i)
	}},
	{"stop a worker", func(r *run, d time.Duration) string {
		i := r.random.IntN(len(r.workers))
		r.workers[i].stop()
		r.wait(2 * d) // often for longer than its leases last
		r.workers[i].resume()
		return fmt.Sprintf("worker %d stood still for %v", i, 2*d)
	}},
	{"cut connections", func(r *run, d time.Duration) string {
		return r.connection("is cut", d, (*servertest.Proxy).Cut, (*servertest.Proxy).Mend)
	}},
	{"drop connections", func(r *run, _ time.Duration) string {
		return r.connection("drops its connections", 0, (*servertest.Proxy).Drop, func(*servertest.Proxy) {})
	}},
	{"hold requests", func(r *run, d time.Duration) string {
		return r.connection("holds requests", d, func(p *servertest.Proxy) { p.Freeze(true, false) }, func(p *servertest.Proxy) { p.Freeze(false, false) })
	}},
	{"hold replies", func(r *run, d time.Duration) string {
		return r.connection("holds replies", d, func(p *servertest.Proxy) { p.Freeze(false, true) }, func(p *servertest.Proxy) { p.Freeze(false, false) })
	}},
	{"delay requests", func(r *run, d time.Duration) string {
		return r.connection("delays what was sent, past newer requests", d, func(p *servertest.Proxy) { p.Hold(); p.Pass() }, (*servertest.Proxy).Arrive)
	}},
	{"stop a server", func(r *run, d time.Duration) string {
		i, ok := r.member()
		if !ok {
			return ""
		}
		r.store.servers[i].Pause()
		r.wait(d)
		r.store.servers[i].Resume()
		return fmt.Sprintf("server %d stood still for %v", i, d)
	}},
	{"restart a server", func(r *run, d time.Duration) string {
		i, ok := r.member()
		if !ok {
			return ""
		}
		r.store.servers[i].Stop()
		r.wait(d / 4)
		r.store.servers[i].Restart()
		return fmt.Sprintf("server %d is restarted after %v", i, d/4)
	}},
}

// connection does something to the connections of a server for a while.
func (r *run) connection(what string, d time.Duration, begin, end func(*servertest.Proxy)) string {
	i, ok := r.member()
	if !ok {
		return ""
	}
	begin(r.store.proxies[i])
	r.wait(d)
	end(r.store.proxies[i])
	return fmt.Sprintf("the way to server %d %s for %v", i, what, d)
}

// schedule is what a seed chooses: a fault, how long it lasts, and the pause before it.
func (r *run) next() (f fault, last, pause time.Duration) {
	ms := func(most int) time.Duration { return time.Duration(r.random.IntN(most)) * time.Millisecond }
	return faults[r.random.IntN(len(faults))], 50*time.Millisecond + ms(int(ttl/time.Millisecond)), ms(1000)
}

// newRandom is what a schedule is drawn from. The same seed draws the same.
func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x7374696c65)) }
