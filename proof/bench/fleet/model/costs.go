package model

// Costs are the loads that single things add: Client, Held and Waiter per second, Pair per lock and unlock. If commits are
// shared, Syncs are writes, each of which needs a commit, and only Commit has the cost of the commits. A request takes less
// processor time the more requests there are; Ease says how much less.
type Costs struct {
	Base, Client, Held, Waiter, Pair Load

	Open   float64 // processor seconds to connect one client
	All    float64 // connections of a client that holds, waits and locks at the same time
	Commit Commit
	Ease   struct{ Held, Waiter, Pair Ease }
	busy   span
}

// traffic returns how busy a load keeps a server, as the bytes that it receives per second; without such a count, as the
// number of clients.
func (l *Load) traffic(clients float64) float64 {
	if l.Received > 0 {
		return l.Received
	}
	return clients
}

// among returns the loads of a held lock, a waiter and a pair in a fleet.
func (c *Costs) among(w *Work) (held, waiter, pair Load) {
	n := float64(w.Processes)
	held, waiter, pair = c.Held, c.Waiter, c.Pair
	all := c.Client.times(n).plus(held.times(n * (1 + 1.0/Group))).plus(waiter.times(n * (1 - 1.0/Group))).plus(pair.times(n * w.Rate))
	traffic := c.busy.within(all.traffic(n))
	held.CPU, waiter.CPU, pair.CPU = c.Ease.Held.at(traffic), c.Ease.Waiter.at(traffic), c.Ease.Pair.at(traffic)
	return held, waiter, pair
}

// connections returns how many connections a number of processes has.
func (c *Costs) connections(n float64) float64 { return c.Base.Connections + n*c.All }

// Costs separates the measurements of parts into costs. A thing's cost is measured best among many clients; the few clients
// show how much more it costs when there is less to do.
func (r *Record) Costs() Costs {
	p := &r.Many
	n := float64(p.Clients)
	c := Costs{
		Base: p.Empty, Client: p.Idle.minus(p.Empty).over(n), Open: p.Opening / n,
		All: p.Together.minus(p.Empty).Connections / n,
	}
	if calm, busy := p.Calm.minus(p.Idle), p.Locking.minus(p.Idle); calm.Syncs >= 0 {
		c.Commit = fitCommit(&calm, &busy, p.Rate/p.CalmRate)
	}
	few, many := r.Few.things(c.Commit), p.things(c.Commit)
	c.Held, c.Waiter, c.Pair = many.held.cost, many.waiter.cost, many.pair.cost
	c.Pair.Connections, c.Pair.Memory = 0, 0
	c.busy = spanOf(few.held, few.waiter, few.pair, few.calm, many.held, many.waiter, many.pair, many.calm)
	c.Ease.Held = ease(few.held, many.held)
	c.Ease.Waiter = ease(few.waiter, many.waiter)
	c.Ease.Pair = ease(few.calm, few.pair, many.calm, many.pair)
	return c
}

// A thing is the cost of one thing in a measurement of parts, and how busy the server was then.
type thing struct {
	cost    Load
	traffic float64
}

type things struct{ held, waiter, pair, calm thing }

// things returns the cost of each thing, without the commits.
func (p *Parts) things(commit Commit) (t things) {
	n := float64(p.Clients)
	beside := func(l Load) Load {
		l = l.minus(p.Idle)
		if l.Syncs >= 0 {
			l.CPU = max(0, l.CPU-commit.CPU*l.Syncs)
			l.Syncs = commit.writes(l.Syncs)
		}
		return l
	}
	of := n / Group // clients that hold a name that others wait for
	t.held = thing{beside(p.Holding).over(n), p.Holding.traffic(n)}
	t.waiter = thing{
		beside(p.Waiting).minus(t.held.cost.times(of)).over(n - of), p.Waiting.traffic(n),
	}
	t.pair = thing{beside(p.Locking).over(n * p.Rate), p.Locking.traffic(n)}
	t.calm = thing{beside(p.Calm).over(n * p.CalmRate), p.Calm.traffic(n)}
	return t
}

// each combines each figure of two loads.
func (l Load) each(m Load, do func(a, b float64) float64) Load {
	syncs := -1.0 // a count that the store does not report stays unknown
	if l.Syncs >= 0 && m.Syncs >= 0 {
		syncs = do(l.Syncs, m.Syncs)
	}
	return Load{
		do(l.CPU, m.CPU), do(l.Received, m.Received), do(l.Sent, m.Sent), syncs,
		do(l.Connections, m.Connections), do(l.Memory, m.Memory),
	}
}

// minus returns how much more a load has than m. A negative difference is chance, and becomes 0.
func (l Load) minus(m Load) Load {
	return l.each(m, func(a, b float64) float64 { return max(0, a-b) })
}

func (l Load) plus(m Load) Load { return l.each(m, func(a, b float64) float64 { return a + b }) }

func (l Load) times(f float64) Load {
	return l.each(l, func(a, _ float64) float64 { return a * f })
}

func (l Load) over(n float64) Load { return l.times(1 / n) }
