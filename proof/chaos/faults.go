//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/servertest"
)

// A fault does something to a worker, a server or a connection, ends it after a while, and returns a description.
type fault struct {
	kind string
	do   func(l *lane, d time.Duration) (what string)
}

// A lane makes one fault after the other. Its seed decides which.
type lane struct {
	*run
	random *rand.Rand
	only   []string       // the kinds of drawn faults that it makes; nil means all
	made   map[string]int // how many it has made, by kind
	hits   []hit          // all faults that it made
}

// A hit is a fault that was made, and its time.
type hit struct {
	what string
	span
}

// A member of a cluster is hit while the others go on.
func (l *lane) member() (int, bool) { return l.oneOf(len(l.store.servers)) }

// oneOf draws one of n things, if there are any.
func (l *lane) oneOf(n int) (int, bool) {
	if n == 0 {
		return 0, false
	}
	return l.random.IntN(n), true
}

// The kinds of faults. After some of them, some stores may have forgotten who holds.
const (
	killWorker      = "kill a worker"
	stopWorker      = "stop a worker"
	cutConnections  = "cut connections"
	dropConnections = "drop connections"
	holdRequests    = "hold requests"
	holdReplies     = "hold replies"
	delayRequests   = "delay requests"
	stopServer      = "stop a server"
	restartServer   = "restart a server"
	killServer      = "kill a server"
)

// ofWorkers are the kinds of faults that hit workers. They do not change the store.
var ofWorkers = []string{killWorker, stopWorker}

// faults are the kinds of faults in a schedule.
var faults = []fault{
	{killWorker, func(l *lane, _ time.Duration) string {
		i := l.random.IntN(len(l.workers))
		l.workers[i].kill()
		l.replace(i)
		return fmt.Sprintf("worker %d is killed", i)
	}},
	{stopWorker, func(l *lane, d time.Duration) string {
		i := l.random.IntN(len(l.workers))
		l.workers[i].stop()
		l.wait(2 * d) // often longer than its leases last
		l.workers[i].resume()
		return fmt.Sprintf("worker %d stood still for %v", i, 2*d)
	}},
	{cutConnections, func(l *lane, d time.Duration) string {
		return l.connection("is cut", d, (*servertest.Proxy).Cut, (*servertest.Proxy).Mend)
	}},
	{dropConnections, func(l *lane, _ time.Duration) string {
		return l.connection("drops its connections", 0, (*servertest.Proxy).Drop, func(*servertest.Proxy) {})
	}},
	{holdRequests, func(l *lane, d time.Duration) string {
		return l.connection("holds requests", d, func(p *servertest.Proxy) { p.Freeze(true, false) }, thaw)
	}},
	{holdReplies, func(l *lane, d time.Duration) string {
		return l.connection("holds replies", d, func(p *servertest.Proxy) { p.Freeze(false, true) }, thaw)
	}},
	{delayRequests, func(l *lane, d time.Duration) string {
		strand := func(p *servertest.Proxy) { p.Hold(0); p.Pass() }
		return l.connection("delays what was sent, past newer requests", d, strand, (*servertest.Proxy).Arrive)
	}},
	{stopServer, func(l *lane, d time.Duration) string {
		return l.server("stands still", d, (*servertest.Server).Pause, (*servertest.Server).Resume)
	}},
	{restartServer, func(l *lane, d time.Duration) string {
		return l.server("is ended, and started anew", d/4, (*servertest.Server).Stop, (*servertest.Server).Restart)
	}},
	{killServer, func(l *lane, d time.Duration) string {
		return l.server("is killed, and started anew", d/4, (*servertest.Server).Kill, (*servertest.Server).Restart)
	}},
}

func thaw(p *servertest.Proxy) { p.Freeze(false, false) }

// server makes a fault on a server for a while.
func (l *lane) server(what string, d time.Duration, begin, end func(*servertest.Server)) string {
	i, ok := l.member()
	if !ok {
		return ""
	}
	begin(l.store.servers[i])
	l.wait(d)
	end(l.store.servers[i])
	return fmt.Sprintf("server %d %s, for %v", i, what, d)
}

// connection makes a fault on the connections that go one way to a server, for a while.
func (l *lane) connection(what string, d time.Duration, begin, end func(*servertest.Proxy)) string {
	i, ok := l.oneOf(len(l.store.proxies))
	if !ok {
		return ""
	}
	begin(l.store.proxies[i])
	l.wait(d)
	end(l.store.proxies[i])
	return fmt.Sprintf("way %d, to %s, %s for %v", i, l.store.proxies[i].Target(), what, d)
}

// next draws a fault, how long it lasts, and the pause before it.
func (l *lane) next() (f fault, last, pause time.Duration) {
	ms := func(most int) time.Duration { return time.Duration(l.random.IntN(most)) * time.Millisecond }
	drawn := l.drawnOf(l.only)
	return drawn[l.random.IntN(len(drawn))], 50*time.Millisecond + ms(int(ttl/time.Millisecond)), ms(1000)
}

// drawnOf returns the faults that are drawn if only some kinds are made. The faults of a balancer are among them if there is
// one, and the faults of an administrator only if one of their kinds is named.
func (r *run) drawnOf(only []string) []fault {
	list := faults
	if r.store != nil && r.store.balancer != nil {
		list = slices.Concat(list, ofBalancer)
	}
	if slices.ContainsFunc(administered, func(f fault) bool { return slices.Contains(only, f.kind) }) {
		list = slices.Concat(list, administered)
	}
	return list
}

// hit draws a fault, and makes it if the lane makes its kind.
func (l *lane) hit() {
	f, last, pause := l.next()
	if l.only != nil && !slices.Contains(l.only, f.kind) {
		return
	}
	l.wait(pause)
	begin := boottime.Now()
	what := f.do(l, last)
	if what == "" {
		return
	}
	l.t.Logf("%v: %s", boottime.Now(), what)
	l.made[f.kind]++
	l.hits = append(l.hits, hit{what, span{begin, boottime.Now()}})
	if slices.Contains(ofWorkers, f.kind) {
		return
	}
	if slices.Contains(l.store.forgets, f.kind) {
		l.loosen(begin)
	}
	l.settle()
}

// newLane returns a lane that draws from a seed. The same seed draws the same faults.
func (r *run) newLane(seed uint64, only []string) *lane {
	return &lane{run: r, random: rand.New(rand.NewPCG(seed, 0x7374696c65)), only: only, made: map[string]int{}}
}

// lanes returns the lanes of a run. If the plan wants pairs, two lanes run at once: one for the faults of workers, one for
// the other faults.
func (r *run) lanes() []*lane {
	if !r.pairs {
		return []*lane{r.newLane(r.seed, r.only)}
	}
	workers, others := []string{}, []string{}
	for _, kind := range kinds(r.drawnOf(r.only)) {
		switch {
		case r.only != nil && !slices.Contains(r.only, kind):
		case slices.Contains(ofWorkers, kind):
			workers = append(workers, kind)
		default:
			others = append(others, kind)
		}
	}
	return []*lane{r.newLane(r.seed, others), r.newLane(^r.seed, workers)}
}
