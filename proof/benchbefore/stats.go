//go:build unix

package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

const (
	sure        = 0.95 // the confidence of the interval
	leastRounds = 6    // fewer rounds give no interval with this confidence
	tolerance   = 0.05 // a smaller change does not matter
)

// rank returns the largest k for which the k-th smallest and the k-th largest of n values enclose, with the probability sure
// at least, the median of the values' distribution, and 0 if there is no such k.
//
// Each value is below that median with probability 1/2, for any distribution. So the k-th smallest is above it when fewer
// than k of n tosses of a coin show heads, and the k-th largest is below it as often.
func rank(n int) int {
	outside, ways := 0.0, math.Pow(0.5, float64(n)) // ways is the probability of exactly k heads
	for k := range n/2 + 1 {
		if outside += ways; 2*outside > 1-sure {
			return k
		}
		ways *= float64(n-k) / float64(k+1)
	}
	return n / 2
}

// median returns the middle of some values, the mean of the middle two if their number is even.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return math.NaN()
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// A comparison is the change of a figure.
type comparison struct {
	before, after    float64 // medians
	ratio, low, high float64 // of after to before: the median, and the interval around it
	verdict          string
}

// compare compares the values of the same rounds. The verdict is worse, or better, if the interval of the ratio lies wholly
// beyond the tolerance; otherwise it is the same, as far as these few rounds show.
func compare(before, after []float64, higher bool) (comparison, error) {
	n := len(before)
	k := rank(n)
	if len(after) != n || k == 0 {
		return comparison{}, fmt.Errorf("%d and %d values cannot be compared: there must be as many of both, and %d",
			n, len(after), leastRounds)
	}
	ratios := make([]float64, n)
	for i := range ratios {
		ratios[i] = ratio(before[i], after[i])
	}
	slices.Sort(ratios)
	c := comparison{
		before: median(before), after: median(after),
		ratio: median(ratios), low: ratios[k-1], high: ratios[n-k], verdict: "same",
	}
	switch {
	case c.low > 1+tolerance:
		c.verdict = "worse"
		if higher {
			c.verdict = "better"
		}
	case c.high < 1-tolerance:
		c.verdict = "better"
		if higher {
			c.verdict = "worse"
		}
	}
	return c, nil
}

// ratio returns after divided by before, and 1 if both are equal, also if both are 0.
func ratio(before, after float64) float64 {
	if before == after {
		return 1
	}
	return after / before
}

// report prints the table, and returns the number of worse figures.
func report(out io.Writer, results []*result) (worse int, err error) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "store\tscenario\tbefore\tafter\tratio\t95 % interval\tverdict")
	for _, r := range results {
		c, err := compare(r.values[before], r.values[after], r.higher)
		if err != nil {
			return 0, fmt.Errorf("%s: %s: %w", r.store, r.name, err)
		}
		if c.verdict == "worse" {
			worse++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.2f\t%.2f to %.2f\t%s\n",
			r.store, r.name, short(c.before), short(c.after), c.ratio, c.low, c.high, c.verdict)
	}
	return worse, w.Flush()
}

// short writes a figure with as many digits as mean something.
func short(f float64) string {
	switch {
	case f >= 100 || f == math.Trunc(f):
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}
