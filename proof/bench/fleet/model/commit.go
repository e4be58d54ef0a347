package model

import "math"

// A Commit is one of those that a server makes for all that was written while the one before was under way: the more is written,
// the more share one. The zero Commit is for a server whose writes share nothing.
type Commit struct {
	Time float64 // seconds from its begin until the next may begin
	CPU  float64 // processor seconds
}

// rate returns how many commits a second so many writes a second ask for, if they come at random. A commit is followed by the
// next at once if something was written meanwhile, and otherwise by the first write that comes.
func (c Commit) rate(writes float64) float64 {
	if c.Time == 0 || writes <= 0 {
		return writes
	}
	return 1 / (c.Time + math.Exp(-writes*c.Time)/writes)
}

// writes returns how many writes a second ask for so many commits a second.
func (c Commit) writes(commits float64) float64 {
	if c.Time == 0 || commits <= 0 {
		return commits
	}
	return between(0, 1e7, func(writes float64) bool { return c.rate(writes) < commits })
}

// mostlyOwn is the part of the writes of busy clients that have commits of their own where none are meant to be shared.
const mostlyOwn = 0.9

// mostlyShared is the part of the processor time of busy clients that may go with the commits. All of it did in some measurements, by
// chance, and then very many writes that share a commit would be computed to cost nothing.
const mostlyShared = 0.5

// fitCommit finds the commits by which a load that has so many times the work of another has the commits that it has, and takes the
// processor time that it takes.
func fitCommit(calm, busy *Load, times float64) Commit {
	var c Commit
	if calm.Syncs <= 0 || busy.Syncs >= calm.Syncs*times*mostlyOwn {
		return c // each write has a commit of its own, but for a few by chance
	}
	c.Time = between(0, 0.999/busy.Syncs, func(d float64) bool {
		try := Commit{Time: d}
		return try.writes(busy.Syncs) < times*try.writes(calm.Syncs)
	})
	// calm.CPU = a + commits·c.CPU and busy.CPU = times·a + commits·c.CPU, with a for the work itself.
	c.CPU = (times*calm.CPU - busy.CPU) / (times*calm.Syncs - busy.Syncs)
	c.CPU = min(max(0, c.CPU), calm.CPU/calm.Syncs, busy.CPU/busy.Syncs*mostlyShared)
	return c
}

// between returns the number from low to high up to which less holds.
func between(low, high float64, less func(float64) bool) float64 {
	for range 60 {
		if middle := (low + high) / 2; less(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}
