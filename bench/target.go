//go:build unix

package main

import (
	"fmt"
	"math"
)

// A target is what one figure of stile's should be, as a bound on its ratio to something else.
type target struct {
	text    string
	measure string
	row     string // stile's
	column  string
	unit    string
	against []ref   // rows, of which the best counts, or nothing
	fixed   float64 // or this, where there are none
	most    bool    // the ratio must be at most the bound; otherwise at least. Says also which of the others is best
	bound   float64
	strict  bool // with most: below the bound
}

// A ref names a row of a measure, and its column if that is another than the target's.
type ref struct{ measure, row, column string }

// rivals are rows of a measure.
func rivals(measure string, rows ...string) []ref {
	var list []ref
	for _, r := range rows {
		list = append(list, ref{measure: measure, row: r})
	}
	return list
}

const perLease = float64(leases) / (float64(renewTTL) / 1e9) * 3 * 1.2

var targets = []target{
	{text: "uncontended lock+unlock, 1 goroutine: p50 no slower than redislock",
		measure: "alone", row: ours, column: "p50", unit: "µs", against: rivals("alone", "redislock"), most: true, bound: 1},
	{text: "64 goroutines on 64 names: at least 2× redislock's throughput",
		measure: "apart", row: ours, column: "rate", unit: "/s", against: rivals("apart", "redislock"), bound: 2},
	{text: "one hot name, 64 goroutines of one process: at least 50× the best of them, in hand-overs",
		measure: "hot", row: ours, column: "passed", unit: "/s", against: rivals("hot", crowded[1:]...), bound: 50},
	{text: "the same, in acquisitions, which peers have mostly by the same goroutine's taking the lock again",
		measure: "hot", row: ours, column: "acquired", unit: "/s", against: rivals("hot", crowded[1:]...), bound: 50},
	{text: "Linger, 1 goroutine: at least 50× redislock's lock+unlock rate",
		measure: "linger", row: "stile, Linger", column: "rate", unit: "/s", against: rivals("linger", "redislock"), bound: 50},
	{text: "one hot name, 8 processes × 8 goroutines: at least 3× the best of them in hand-overs",
		measure: "fleet", row: ours, column: "passed", unit: "/s", against: rivals("fleet", crowded[1:]...), bound: 3},
	{text: "the same: p99 wait at most a tenth of redsync's, the better of the two",
		measure: "fleet", row: ours, column: "p99", unit: "ms", against: rivals("fleet", "redsync", "redsync, 5 ms"), most: true, bound: 0.1},
	{text: "hand-over to one waiter in another process: p50 under 3 round trips, made after pauses like those of the hand-overs",
		measure: "handover", row: ours, column: "p50", unit: "µs", against: rivals("handover", pacedPings), most: true, bound: 3, strict: true},
	{text: "the same, against round trips one after the other",
		measure: "handover", row: ours, column: "p50", unit: "µs", against: rivals("handover", pings), most: true, bound: 3, strict: true},
	{text: "100 waiters of one process on a held name: under 2 commands/s, as clients send them",
		measure: "waiting", row: ours, column: "requests", unit: "/s", fixed: 2, most: true, bound: 1, strict: true},
	{text: "the same, with those inside scripts",
		measure: "waiting", row: ours, column: "commands", unit: "/s", fixed: 2, most: true, bound: 1, strict: true},
	{text: fmt.Sprintf("1,000 held leases renewing: under 1,000/ttl·3·1.2 = %.0f commands/s, as clients send them", perLease),
		measure: "holding", row: ours, column: "requests", unit: "/s", fixed: perLease, most: true, bound: 1, strict: true},
	{text: "the same: no goroutine per lease (fewer than one for 100)",
		measure: "holding", row: ours, column: "goroutines", unit: "", fixed: 0.01, most: true, bound: 1, strict: true},
	{text: "memory: under 2 KiB a held lease",
		measure: "holding", row: ours, column: "heap", unit: "B", fixed: 2048, most: true, bound: 1, strict: true},
	{text: "memory: under 1 KiB a local waiter, the goroutine's own included",
		measure: "queueing", row: ours, column: "heap", unit: "B", fixed: 1024, most: true, bound: 1, strict: true},
}

// A verdict is how a target came out.
type verdict struct {
	ours, theirs float64 // medians
	rival        string  // whose it is; the best by its median
	ratios       []float64
	met          bool
}

// judge compares what was measured with a target; nil if it was not measured.
func (b *bench) judge(t *target) *verdict {
	mine := b.values(ref{t.measure, t.row, t.column})
	if len(mine) == 0 {
		return nil
	}
	v := &verdict{ours: median(mine), theirs: math.NaN(), ratios: make([]float64, len(mine))}
	best := make([]float64, len(mine)) // in each round
	for i := range best {
		best[i] = t.fixed
	}
	for n, r := range t.against {
		r.column = t.column
		other := b.values(r)
		if len(other) != len(mine) {
			return nil
		}
		if m := median(other); n == 0 || t.better(m, v.theirs) {
			v.theirs, v.rival = m, r.row
		}
		for i := range best {
			if n == 0 || t.better(other[i], best[i]) {
				best[i] = other[i]
			}
		}
	}
	if len(t.against) == 0 {
		v.theirs = t.fixed
	}
	for i := range mine {
		v.ratios[i] = mine[i] / best[i]
	}
	switch ratio := median(v.ratios); {
	case !t.most:
		v.met = ratio >= t.bound
	case t.strict:
		v.met = ratio < t.bound
	default:
		v.met = ratio <= t.bound
	}
	return v
}

func (t *target) better(a, b float64) bool {
	if t.most {
		return a < b
	}
	return a > b
}

// values returns a figure in each round.
func (b *bench) values(r ref) []float64 {
	for _, m := range b.measures {
		if m.key == r.measure {
			return m.row(r.row).values(r.column)
		}
	}
	return nil
}
