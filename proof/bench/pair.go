//go:build unix

package main

import (
	"context"
	"runtime"
)

// pairs is how many times a lock is taken and released to count the cost of one time.
const pairs = 1000

// pair counts requests, so its figures are right on a busy machine too.
func (b *bench) pair(among ...string) *measure {
	return &measure{
		key: "pair", title: "What a lock and unlock cost", slow: true,
		about: "One goroutine locks and unlocks a name that nobody else wants, 1,000 times after it did so once. Requests are what the " +
			"servers were sent, commands what they ran, those inside scripts included, and messages what they sent, where they tell. " +
			"Allocations are those of the whole client process.",
		columns: []column{
			{"requests", "requests/pair", 1}, {"commands", "commands/pair", 1}, {"messages", "messages/pair", 1},
			{"allocations", "allocations/pair", 0}, {"bytes", "bytes/pair", 0},
		},
		rows: b.arena.among(b.pairOne, among...),
	}
}

func (b *bench) pairOne(c contender) (sample, error) {
	lib, err := c.open(b.addr, defaultTTL)
	if err != nil {
		return nil, err
	}
	defer lib.close()
	m := lib.mutex(b.name())
	if err := turns(m, 1); err != nil {
		return nil, err
	}
	n := pairs
	if b.brief {
		n = 10
	}
	before, err := b.count()
	if err != nil {
		return nil, err
	}
	var from, to runtime.MemStats
	runtime.ReadMemStats(&from)
	err = turns(m, n)
	runtime.ReadMemStats(&to)
	if err != nil {
		return nil, err
	}
	after, err := b.count()
	if err != nil {
		return nil, err
	}
	requests, commands := after.since(before, c.inside)
	each := func(sum int64) float64 { return float64(sum) / float64(n) }
	return sample{
		"requests": each(requests), "commands": each(commands), "messages": each(after[sentMessages] - before[sentMessages]),
		"allocations": each(int64(to.Mallocs - from.Mallocs)), "bytes": each(int64(to.TotalAlloc - from.TotalAlloc)),
	}, nil
}

// turns locks and unlocks n times.
func turns(m mutex, n int) error {
	for range n {
		h, err := m.lock(context.Background())
		if err != nil {
			return err
		}
		if err := h.Unlock(); err != nil {
			return err
		}
	}
	return nil
}
