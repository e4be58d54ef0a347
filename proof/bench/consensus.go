//go:build unix

package main

// Measures on the stores with sessions: stile beside the store's usual client.

// consensusMeasures are the same for all of these stores, except for the further rows where the lock is passed on.
func consensusMeasures(b *bench, passed ...string) []*measure {
	return []*measure{b.alone(), b.eight(), b.apart(), b.pair(b.arena.alone()...), b.hot(), b.fleet(passed...), b.handOver(b.arena.bare...), b.passing(passed...)}
}

// consensusTargets are stile's targets beside a rival, or two: one where nobody else wants the lock, and one where many
// want it. The bare limit is the figure of a program without a lock.
func consensusTargets(uncontended, contended, bare string) []target {
	return []target{
		{text: "uncontended lock+unlock, 1 goroutine: p50 at most 1.05×",
			measure: "alone", row: ours, column: "p50", unit: "µs", against: rivals("alone", uncontended), most: true, bound: 1.05, bare: bare},
		{text: "8 goroutines on 8 names: at least 0.95× the throughput",
			measure: "names-8", row: ours, column: "rate", unit: "/s", against: rivals("names-8", uncontended), bound: 0.95, bare: bare},
		{text: "64 goroutines on 64 names: at least 0.95× the throughput",
			measure: "apart", row: ours, column: "rate", unit: "/s", against: rivals("apart", uncontended), bound: 0.95, bare: bare},
		{text: "one hot name, 64 goroutines of one process: at least 50×, in hand-overs",
			measure: "hot", row: ours, column: "passed", unit: "/s", against: rivals("hot", contended), bound: 50},
		{text: "one hot name, 8 processes × 8 goroutines: at least 2×, in hand-overs",
			measure: "fleet", row: ours, column: "passed", unit: "/s", against: rivals("fleet", contended), bound: 2},
		{text: "requests per hand-over do not grow with those who wait: 64 clients beside 8",
			measure: "passing", row: waitingRow(ours, manyWaiting), column: "requests", unit: "",
			against: rivals("passing", waitingRow(ours, fewWaiting)), most: true, bound: 1.25},
	}
}
