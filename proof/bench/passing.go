//go:build unix

package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// The server's cost of one hand-over, and whether it grows with the waiters.

const (
	fewWaiting  = 8
	manyWaiting = 64
)

// passing also measures more rows beside b.arena.uncontended.
func (b *bench) passing(more ...string) *measure {
	m := &measure{
		key: "passing", title: "What a hand-over costs the server",
		about: "So many clients, each with a connection and a session of its own as if it were a process, lock and unlock one name in a " +
			"loop, so that all but one wait. Requests are what the server counts, and messages what it sends, both divided by the " +
			"hand-overs between clients; what keeps sessions alive is among them.",
		columns: []column{{"requests", "requests/hand-over", 1}, {"messages", "messages/hand-over", 1}, {"rate", "hand-overs/s", 0}},
	}
	for _, c := range slices.Concat(b.arena.uncontended, more) {
		for _, n := range []int{fewWaiting, manyWaiting} {
			m.rows = append(m.rows, &row{name: waitingRow(c, n), run: func() (sample, error) { return b.passingOne(b.arena.find(c), n) }})
		}
	}
	return m
}

func waitingRow(contender string, n int) string { return fmt.Sprintf("%s, %d clients", contender, n) }

func (b *bench) passingOne(c contender, clients int) (sample, error) {
	name := b.name()
	f := &field{}
	parts := make([]*contention, clients)
	for i := range parts {
		lib, err := c.open(b.addr, defaultTTL)
		if err != nil {
			return nil, err
		}
		defer lib.close()
		parts[i] = &contention{lib: lib, name: name, size: 1, first: uint64(i) + 1, field: f, warm: b.window / 4, span: b.window}
	}
	var (
		done    sync.WaitGroup
		tallies = make([]*tally, clients)
		errs    = make([]error, clients)
	)
	for i, p := range parts {
		done.Go(func() { tallies[i], errs[i] = p.run() })
	}
	time.Sleep(b.window / 4)
	load, err := b.load(c, b.window*9/10)
	done.Wait()
	sum := &tally{}
	for i, t := range tallies {
		if errs[i] != nil {
			return nil, errs[i]
		}
		sum.merge(t)
	}
	if err != nil {
		return nil, err
	}
	rate := float64(max(1, sum.Passed)) / b.window.Seconds() // none at all counts as one
	return sample{"requests": load["requests"] / rate, "messages": load["messages"] / rate, "rate": rate}, nil
}
