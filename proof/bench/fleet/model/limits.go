package model

import "math"

// Limits are how far one server may be used.
type Limits struct {
	CPU         float64 // processor seconds per second
	Connections float64
	Memory      float64 // bytes
	Network     float64 // bytes per second in one direction
	Syncs       float64 // per second
}

// A Resource is one limit, and how much of it a fleet uses.
type Resource struct {
	Name  string
	Share float64 // part of the limit
}

// Shares returns how much of each limit a load takes, the scarcest first.
func (l *Limits) Shares(load *Load) []Resource {
	all := []Resource{
		{"processor", load.CPU / l.CPU},
		{"connections", load.Connections / l.Connections},
		{"memory", load.Memory / l.Memory},
		{"network", max(load.Received, load.Sent) / l.Network},
		{"disk syncs", load.Syncs / l.Syncs},
	}
	for i := range all { // few elements; equal ones keep this order
		for j := i; j > 0 && all[j].Share > all[j-1].Share; j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
	return all
}

// Load returns the average load of a fleet, by [Simulate].
func (c *Costs) Load(w *Work) Load {
	n := float64(w.Processes)
	hold, waiter, pair := c.among(w)
	work := hold.times(n * (1 + 1.0/Group)).plus(waiter.times(n * (1 - 1.0/Group))).plus(pair.times(n * w.Rate))
	if work.Syncs >= 0 {
		work.Syncs = c.Commit.rate(work.Syncs)
		work.CPU += work.Syncs * c.Commit.CPU
	}
	all := c.Base.plus(c.Client.times(n)).plus(work)
	all.Connections = c.connections(n)
	return all
}

// Divided returns how many servers a fleet needs if it is cut into parts that share no names, each with a server of its
// own.
func (l *Limits) Divided(c *Costs, w *Work) int {
	for servers := 1; servers < w.Processes; servers++ {
		part := *w
		part.Processes = int(math.Ceil(float64(w.Processes) / float64(servers)))
		if load := c.Load(&part); l.Shares(&load)[0].Share <= 1 {
			return servers
		}
	}
	return w.Processes
}

// Most returns how many processes one server can serve.
func (l *Limits) Most(c *Costs, rate float64) int {
	low, high := 0, 1<<30
	for low < high {
		n := (low + high + 1) / 2
		load := c.Load(&Work{Processes: n, Rate: rate})
		if l.Shares(&load)[0].Share <= 1 {
			low = n
		} else {
			high = n - 1
		}
	}
	return low
}
