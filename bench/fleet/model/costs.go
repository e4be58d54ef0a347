package model

import "math"

// Costs are what each thing adds to the load of a server: Client, Held and Waiter in a second, Pair in one lock and unlock. Where
// commits are shared, Syncs are writes, of which each asks for a commit, and what commits cost is in Commit alone.
type Costs struct {
	Base, Client, Held, Waiter, Pair Load

	Open   float64 // processor seconds to connect a client
	Commit Commit
	Calm   Calm
}

// Calm says how much less a request costs the more there are, as a server that has little to do takes longer for each, and one that
// has much serves several at once: the processor time of a lock and unlock was measured at two rates of requests. The zero Calm is for
// a store whose rates differ by their commits, or were not both measured.
type Calm struct {
	CPU             float64 // processor seconds of a pair at Requests
	Requests, Often float64 // requests a second of all clients, here and where Pair was measured

	Held, Waiter float64 // requests a second where those were measured
}

// at returns the processor time of a pair at so many requests a second: between the two rates that were measured it falls evenly with
// each doubling, and beyond them it is taken to stay as it is.
func (c *Costs) at(requests float64) float64 {
	if c.Calm.CPU <= c.Pair.CPU || requests >= c.Calm.Often {
		return c.Pair.CPU
	}
	share := math.Log(c.Calm.Often/max(requests, c.Calm.Requests)) / math.Log(c.Calm.Often/c.Calm.Requests)
	return c.Pair.CPU * math.Pow(c.Calm.CPU/c.Pair.CPU, share)
}

// steep is how steeply renewals and looks become cheaper, beside pairs, which were measured at two rates: a number that was chosen by
// the fleets of the page, and the same for all stores.
const steep = 0.5

// among returns what a held lock, a waiter and a pair cost at so many requests a second. Renewals and looks become cheaper too.
func (c *Costs) among(requests float64) (held, waiter, pair Load) {
	held, waiter, pair = c.Held, c.Waiter, c.Pair
	if c.Calm.CPU > c.Pair.CPU {
		held.CPU *= math.Pow(c.at(requests)/c.at(c.Calm.Held), steep)
		waiter.CPU *= math.Pow(c.at(requests)/c.at(c.Calm.Waiter), steep)
	}
	pair.CPU = c.at(requests)
	pair.Connections, pair.Memory = 0, 0
	return held, waiter, pair
}

// Costs takes measurements of parts apart.
func (p *Parts) Costs() Costs {
	n := float64(p.Clients)
	c := Costs{Base: p.Empty, Client: p.Idle.minus(p.Empty).over(n), Open: p.Opening / n}
	held, pairs, waiting := p.Holding.minus(p.Idle), p.Locking.minus(p.Idle), p.Waiting.minus(p.Idle)
	calm := p.Calm.minus(p.Idle)
	if p.CalmRate > 0 && calm.Syncs >= 0 {
		c.Commit = fitCommit(&calm, &pairs, p.Rate/p.CalmRate)
		for _, l := range []*Load{&held, &pairs, &waiting} {
			l.CPU = max(0, l.CPU-c.Commit.CPU*l.Syncs)
			l.Syncs = c.Commit.writes(l.Syncs)
		}
	}
	c.Held, c.Pair = held.over(n), pairs.over(n*p.Rate)
	if p.CalmRate > 0 && c.Commit.Time == 0 {
		c.Calm = Calm{
			CPU: calm.CPU / (n * p.CalmRate), Requests: 2 * n * p.CalmRate, Often: 2 * n * p.Rate,
			Held: n / renewEvery, Waiter: n/Group/renewEvery + n*(1-1.0/Group)/lookEvery,
		}
	}
	c.Waiter = waiting.minus(c.Held.times(n / Group)).over(n * (1 - 1.0/Group))
	return c
}

// each does something with each figure of two loads.
func (l Load) each(m Load, do func(a, b float64) float64) Load {
	syncs := -1.0 // what the store does not tell remains so
	if l.Syncs >= 0 && m.Syncs >= 0 {
		syncs = do(l.Syncs, m.Syncs)
	}
	return Load{
		do(l.CPU, m.CPU), do(l.Received, m.Received), do(l.Sent, m.Sent), syncs,
		do(l.Connections, m.Connections), do(l.Memory, m.Memory),
	}
}

// minus is what there is more than in m; less than nothing is by chance, and is nothing.
func (l Load) minus(m Load) Load {
	return l.each(m, func(a, b float64) float64 { return max(0, a-b) })
}

func (l Load) plus(m Load) Load { return l.each(m, func(a, b float64) float64 { return a + b }) }

func (l Load) times(f float64) Load {
	return l.each(l, func(a, _ float64) float64 { return a * f })
}

func (l Load) over(n float64) Load { return l.times(1 / n) }
