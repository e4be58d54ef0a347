//go:build unix

package main

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// A histogram counts durations in buckets that are 3 % wide. The zero histogram is ready.
type histogram struct {
	Counts []int64
	N      int64
	Most   time.Duration
}

const fine = 5 // bits of a duration below its highest that choose the bucket

func bucket(d time.Duration) int {
	n := uint64(max(d, 0))
	if n < 1<<fine {
		return int(n)
	}
	shift := bits.Len64(n) - 1 - fine
	return shift<<fine + int(n>>shift)
}

// middle returns the duration that a bucket stands for.
func middle(i int) time.Duration {
	if i < 2<<fine {
		return time.Duration(i)
	}
	shift := i>>fine - 1
	low := int64(i-shift<<fine) << shift
	return time.Duration(low + 1<<shift/2)
}

func (h *histogram) add(d time.Duration) {
	i := bucket(d)
	if i >= len(h.Counts) {
		h.Counts = append(h.Counts, make([]int64, i+1-len(h.Counts))...)
	}
	h.Counts[i]++
	h.N++
	h.Most = max(h.Most, d)
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.Counts {
		if n == 0 {
			continue
		}
		if i >= len(h.Counts) {
			h.Counts = append(h.Counts, make([]int64, i+1-len(h.Counts))...)
		}
		h.Counts[i] += n
	}
	h.N += other.N
	h.Most = max(h.Most, other.Most)
}

// quantile returns the duration that so large a part does not exceed, or 0 if there are none.
func (h *histogram) quantile(part float64) time.Duration {
	rank := int64(math.Ceil(part * float64(h.N)))
	for i, n := range h.Counts {
		if rank -= n; rank <= 0 && n > 0 {
			return min(middle(i), h.Most)
		}
	}
	return 0
}

// jain is 1 if all have the same, and 1/n if one of n has all.
func jain(counts []int64) float64 {
	var sum, squares float64
	for _, n := range counts {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(counts)) * squares)
}

// median returns the middle of some values, the mean of the middle two if their number is even.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
