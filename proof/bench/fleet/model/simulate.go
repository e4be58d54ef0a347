package model

import (
	"math/rand/v2"
	"slices"
)

// A Work is the work of a fleet. Each process holds a name of its own. In each Group of processes the first one holds one
// more name, and the others wait for it.
type Work struct {
	Processes int
	Rate      float64 // locks and unlocks of a process per second, of names that nobody else wants
	Cores     int     // cores that serve requests, each one request at a time
}

// A Result is the result of a simulation.
type Result struct {
	Load
	Median, P99 float64 // seconds that a request waits in the server until a core begins to serve it
}

// How long the simulation lasts, in seconds of the fleet, and how much of its beginning does not count.
const (
	simulated = 13.0
	warmUp    = 3.0
)

const (
	renewEvery = TTL / 3
	lookEvery  = 4.0    // a waiter asks for its place again
	apart      = 0.0005 // a round trip, between a lock and its unlock
)

// An arrival is one request, or several of one kind that a process sends together.
type arrival struct{ at, work float64 }

// Simulate simulates a fleet on one server. Each process renews, polls and locks at moments of its own. The server serves
// the requests in their order on its cores, and commits the writes. The load of idle clients and of commits is taken
// evenly from the cores.
func Simulate(c *Costs, w *Work, seed uint64) Result {
	s := simulation{Work: w, random: rand.New(rand.NewPCG(seed, 1)), commit: c.Commit.Time}
	n := float64(w.Processes)
	idle := c.Base.plus(c.Client.times(n))
	hold, waiter, pair := c.among(w)
	for i := range w.Processes {
		s.regular(hold, renewEvery)
		if i%Group == 0 {
			s.regular(hold, renewEvery)
		} else {
			s.regular(waiter, lookEvery)
		}
		s.locks(pair)
	}
	if s.sum.Syncs > 0 {
		s.sum.Syncs = s.commits()
		idle.CPU += s.sum.Syncs * c.Commit.CPU / (simulated - warmUp)
	}
	share := min(idle.CPU/float64(w.Cores), 0.99)
	r := Result{Load: idle.plus(s.sum.over(simulated - warmUp))}
	r.Connections = c.connections(n)
	r.Memory += s.has.Memory
	r.Median, r.P99 = s.serve(1 - share)
	return r
}

// A simulation is a simulation under way.
type simulation struct {
	*Work
	random   *rand.Rand
	commit   float64 // how long a commit lasts
	arrivals []arrival
	writes   []float64 // when
	sum      Load      // of the requests in the time that counts
	has      Load      // the constant part
}

// regular adds a thing that sends requests again and again, with a jitter of a tenth.
func (s *simulation) regular(cost Load, every float64) {
	s.has.Memory += cost.Memory
	cost.Connections, cost.Memory = 0, 0
	each := cost.times(every)
	for at := s.random.Float64() * every; at < simulated; at += every * (0.95 + 0.1*s.random.Float64()) {
		s.arrive(at, each, 1)
	}
}

// locks adds a process that locks and unlocks at random moments. Both requests cost the same.
func (s *simulation) locks(cost Load) {
	if s.Rate <= 0 {
		return
	}
	for at := s.random.ExpFloat64() / s.Rate; at < simulated; at += s.random.ExpFloat64() / s.Rate {
		s.arrive(at, cost, 2)
	}
}

// arrive adds a number of requests that follow each other directly.
func (s *simulation) arrive(at float64, cost Load, requests int) {
	later := apart + s.commit // the unlock comes after the commit of the lock
	for i := range requests {
		s.arrivals = append(s.arrivals, arrival{at + float64(i)*later, cost.CPU / float64(requests)})
	}
	left := cost.Syncs
	for ; left > s.random.Float64(); left-- { // a fraction of a write is a write now and then
		s.writes = append(s.writes, at+(cost.Syncs-left)*later)
	}
	if at >= warmUp {
		s.sum = s.sum.plus(cost)
	}
}

// commits returns how many commits the writes need in the time that counts.
func (s *simulation) commits() (n float64) {
	slices.Sort(s.writes)
	ends := 0.0
	for i := 0; i < len(s.writes); {
		begin := max(s.writes[i], ends)
		ends = begin + s.commit
		for i++; s.commit > 0 && i < len(s.writes) && s.writes[i] <= begin; {
			i++
		}
		if begin >= warmUp && begin < simulated {
			n++
		}
	}
	return n
}

// serve serves all arrivals, with a share of each core's time, and returns how long they waited.
func (s *simulation) serve(share float64) (median, p99 float64) {
	slices.SortFunc(s.arrivals, func(a, b arrival) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	free := make([]float64, s.Cores) // when each core is free
	var waits []float64
	for _, a := range s.arrivals {
		first := 0
		for i := range free {
			if free[i] < free[first] {
				first = i
			}
		}
		begin := max(a.at, free[first])
		free[first] = begin + a.work/share
		if a.at >= warmUp {
			waits = append(waits, begin-a.at)
		}
	}
	if len(waits) == 0 {
		return 0, 0
	}
	slices.Sort(waits)
	return waits[len(waits)/2], waits[len(waits)*99/100]
}
