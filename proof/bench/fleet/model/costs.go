package model

// Costs are what each thing adds to the load of a server: Client, Held and Waiter in a second, Pair in one lock and
// unlock. Where commits are shared, Syncs are writes, of which each asks for a commit, and what commits cost is in
// Commit alone. The processor time of a request is less the more there are: Ease has that.
type Costs struct {
	Base, Client, Held, Waiter, Pair Load

	Open   float64 // processor seconds to connect a client
	All    float64 // connections of a client that holds, waits and locks at once
	Commit Commit
	Ease   struct{ Held, Waiter, Pair Ease }
	busy   span
}

// traffic is how busy a load keeps a server: the bytes that it receives in a second. Where there is none it is the
// clients.
func (l *Load) traffic(clients float64) float64 {
	if l.Received > 0 {
		return l.Received
	}
	return clients
}

// among returns what a held lock, a waiter and a pair cost in a fleet.
func (c *Costs) among(w *Work) (held, waiter, pair Load) {
	n := float64(w.Processes)
	held, waiter, pair = c.Held, c.Waiter, c.Pair
	all := c.Client.times(n).plus(held.times(n * (1 + 1.0/Group))).plus(waiter.times(n * (1 - 1.0/Group))).plus(pair.times(n * w.Rate))
	traffic := c.busy.within(all.traffic(n))
	held.CPU, waiter.CPU, pair.CPU = c.Ease.Held.at(traffic), c.Ease.Waiter.at(traffic), c.Ease.Pair.at(traffic)
	return held, waiter, pair
}

// connections returns those of so many processes.
func (c *Costs) connections(n float64) float64 { return c.Base.Connections + n*c.All }

// Costs takes measurements of parts apart. What a thing costs is that among many clients, which was measured best; of
// the few there is how much more it is where there is less to do.
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

// A thing is what one costs in measurements of parts, and how busy the server was then.
type thing struct {
	cost    Load
	traffic float64
}

type things struct{ held, waiter, pair, calm thing }

// things returns what each costs without the commits.
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
	of := n / Group // have a name that others wait for
	t.held = thing{beside(p.Holding).over(n), p.Holding.traffic(n)}
	t.waiter = thing{
		beside(p.Waiting).minus(t.held.cost.times(of)).over(n - of), p.Waiting.traffic(n),
	}
	t.pair = thing{beside(p.Locking).over(n * p.Rate), p.Locking.traffic(n)}
	t.calm = thing{beside(p.Calm).over(n * p.CalmRate), p.Calm.traffic(n)}
	return t
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
