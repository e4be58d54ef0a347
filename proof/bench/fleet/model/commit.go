package model

import "math"

// A Commit is one group commit of a server, which makes everything durable that was written during the commit before. The
// more writes there are, the more share a commit. The zero Commit is for a server whose writes share nothing.
type Commit struct {
	Time float64 // seconds from its begin until the next one may begin
	CPU  float64 // processor seconds
}

// rate returns how many commits per second a rate of writes needs, if the writes come at random. The next commit follows at
// once if something was written during the last one, and otherwise with the next write.
func (c Commit) rate(writes float64) float64 {
	if c.Time == 0 || writes <= 0 {
		return writes
	}
	return 1 / (c.Time + math.Exp(-writes*c.Time)/writes)
}

// writes returns the rate of writes that needs a rate of commits.
func (c Commit) writes(commits float64) float64 {
	if c.Time == 0 || commits <= 0 {
		return commits
	}
	return between(0, 1e7, func(writes float64) bool { return c.rate(writes) < commits })
}

// mostlyOwn is the part of the busy clients' writes with commits of their own above which commits count as not shared.
const mostlyOwn = 0.9

// mostlyShared bounds the part of the busy clients' processor time that commits may account for. In some measurements they
// accounted for all of it, by chance; then any number of writes that share a commit would be computed to cost nothing.
const mostlyShared = 0.5

// fitCommit finds the commit that explains both the commits and the processor time of two loads, where busy has times the
// work of calm.
func fitCommit(calm, busy *Load, times float64) Commit {
	var c Commit
	if calm.Syncs <= 0 || busy.Syncs >= calm.Syncs*times*mostlyOwn {
		return c // almost every write has a commit of its own
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

// between returns the number between low and high up to which less is true.
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
