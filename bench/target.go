//go:build unix

package main

import "math"

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
		if best[i] == 0 && b.window > 0 {
			best[i] = 1 / b.window.Seconds() // what never happened counts as once in the window
		}
		v.ratios[i] = mine[i] / best[i]
	}
	v.met = t.met(median(v.ratios))
	return v
}

// met reports whether a ratio is within the bound.
func (t *target) met(ratio float64) bool {
	switch {
	case !t.most:
		return ratio >= t.bound
	case t.strict:
		return ratio < t.bound
	}
	return ratio <= t.bound
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
