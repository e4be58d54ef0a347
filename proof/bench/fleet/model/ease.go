package model

import (
	"math"
	"slices"
)

// An Ease says how much less processor time a request takes the busier the server is: a server with little to do wakes up
// for each request, and a busy one serves several at once. With each doubling of the traffic the time falls by the same
// part.
type Ease struct {
	CPU   float64 // processor seconds at a traffic of 1
	Steep float64 // the power of the traffic by which they fall
}

// at returns the processor seconds at a traffic.
func (e *Ease) at(traffic float64) float64 { return e.CPU * math.Pow(traffic, -e.Steep) }

// ease fits a line to the measured costs of a thing at several traffics, on logarithmic scales. If one of the costs was not
// seen, if all traffics were the same, or if the cost seemed to rise with the traffic, the last cost counts for every
// traffic.
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
	if spread < 1e-4*n*n { // they differ by about one in a hundred
		return flat
	}
	steep := (x*y - n*xy) / spread
	if steep < 0 {
		return flat // by chance: a busy server does not need longer for a request
	}
	return Ease{CPU: math.Exp((y + steep*x) / n), Steep: steep}
}

// A span is the range of measured traffic, over all kinds of requests. Outside of it a request is taken to cost the same as
// at its end.
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
