package model

import (
	"math"
	"slices"
)

// An Ease says how much less processor time a request takes the busier the server is: one that has little to do is
// woken for each request, and one that has much serves several at once. The time falls by the same part with each
// doubling of the traffic.
type Ease struct {
	CPU   float64 // processor seconds with a traffic of 1
	Steep float64 // by which power of the traffic they fall
}

// at returns the processor seconds with so much traffic.
func (e *Ease) at(traffic float64) float64 { return e.CPU * math.Pow(traffic, -e.Steep) }

// ease finds the line that is nearest to what a thing was measured to cost with much traffic and with little, both
// drawn by their logarithms. Where one of them was not seen to cost anything, or all had the same traffic, or it
// seemed to cost more with more of it, it is what the last one costs.
func ease(seen ...thing) Ease {
	flat := Ease{CPU: seen[len(seen)-1].cost.CPU}
	var x, y, xx, xy, n float64
	for _, t := range seen {
		if t.cost.CPU <= 0 || t.traffic <= 0 {
			return flat
		}
		a, b := math.Log(t.traffic), math.Log(t.cost.CPU)
		x, y, xx, xy, n = x+a, y+b, xx+a*a, xy+a*b, n+1
	}
	spread := n*xx - x*x
	if spread < 1e-4*n*n { // by about one in a hundred
		return flat
	}
	steep := (x*y - n*xy) / spread
	if steep < 0 {
		return flat // by chance: a busy server needs no longer for a request
	}
	return Ease{CPU: math.Exp((y + steep*x) / n), Steep: steep}
}

// A span is from the least traffic that was measured to the most, whatever asked for it. Beyond it what a request
// costs is taken to stay as it is.
type span struct{ least, most float64 }

func spanOf(seen ...thing) span {
	less := func(a, b thing) int {
		return int(math.Copysign(1, a.traffic-b.traffic))
	}
	return span{slices.MinFunc(seen, less).traffic, slices.MaxFunc(seen, less).traffic}
}

func (s span) within(traffic float64) float64 {
	if s.most == 0 {
		return max(1, traffic)
	}
	return min(max(traffic, s.least), s.most)
}
