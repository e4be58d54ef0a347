// Package histogram counts durations in buckets, so that many durations take little room and the percentiles stay within 3
// %.
package histogram

import (
	"iter"
	"math"
	"math/bits"
	"time"
)

// A Histogram counts durations in buckets that are 3 % wide. The zero Histogram is ready. It is not safe for concurrent use:
// each goroutine has its own, and merges it. The fields are exported for encoding/json.
type Histogram struct {
	Counts []int64
	N      int64
	Most   time.Duration // the longest
}

const fine = 5 // the bits below a duration's highest bit that choose the bucket

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

func (h *Histogram) grow(buckets int) {
	if buckets > len(h.Counts) {
		h.Counts = append(h.Counts, make([]int64, buckets-len(h.Counts))...)
	}
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	i := bucket(d)
	h.grow(i + 1)
	h.Counts[i]++
	h.N++
	h.Most = max(h.Most, d)
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(other *Histogram) {
	h.grow(len(other.Counts))
	for i, n := range other.Counts {
		h.Counts[i] += n
	}
	h.N += other.N
	h.Most = max(h.Most, other.Most)
}

// Quantile returns the duration that a part of all counted durations, from 0 to 1, does not exceed; 0 without any.
func (h *Histogram) Quantile(part float64) time.Duration {
	rank := int64(math.Ceil(part * float64(h.N)))
	for i, n := range h.Counts {
		if rank -= n; rank <= 0 && n > 0 {
			return min(middle(i), h.Most)
		}
	}
	return 0
}

// All yields the durations that the buckets stand for, shortest first, with their counts. It leaves out empty buckets.
func (h *Histogram) All() iter.Seq2[time.Duration, int64] {
	return func(yield func(time.Duration, int64) bool) {
		for i, n := range h.Counts {
			if n > 0 && !yield(min(middle(i), h.Most), n) {
				return
			}
		}
	}
}
