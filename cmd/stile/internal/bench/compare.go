package bench

import (
	"slices"
)

// A Ratio is the second store's figure divided by the first one's, in each round.
type Ratio struct {
	Median, Least, Most float64
}

// Ratio compares the two sides of a row; the result is nil if a round lacks a side or has no figure.
func (r *Row) Ratio(of func(Round) float64) *Ratio {
	if len(r.Sides) != 2 || r.Sides[0] == nil || r.Sides[1] == nil {
		return nil
	}
	var all []float64
	for i := range min(len(r.Sides[0].Rounds), len(r.Sides[1].Rounds)) {
		a, b := of(r.Sides[0].Rounds[i]), of(r.Sides[1].Rounds[i])
		if a <= 0 || b <= 0 {
			return nil
		}
		all = append(all, b/a)
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	return &Ratio{Median: median(all), Least: all[0], Most: all[len(all)-1]}
}

// Rate returns the median of the rates of the rounds, or 0 if there are none.
func (s *Side) Rate() float64 {
	rates := make([]float64, len(s.Rounds))
	for i, r := range s.Rounds {
		rates[i] = r.Rate
	}
	slices.Sort(rates)
	return median(rates)
}

// median returns the middle of sorted values, the mean of the middle two if their number is even, and 0 if there are none.
func median(sorted []float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
