package histogram

import (
	"math"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var a, b Histogram
	for n := 1; n <= 1000; n++ {
		h := &a
		if n%2 == 0 {
			h = &b
		}
		h.Add(time.Duration(n) * time.Millisecond)
	}
	a.Merge(&b)
	if a.N != 1000 || a.Most != time.Second {
		t.Errorf("%d durations, the longest %v; want 1000 and 1s", a.N, a.Most)
	}
	for _, test := range []struct {
		part float64
		want time.Duration
	}{{0.001, time.Millisecond}, {0.5, 500 * time.Millisecond}, {0.99, 990 * time.Millisecond}, {1, time.Second}} {
		got := a.Quantile(test.part)
		if off := math.Abs(float64(got-test.want)) / float64(test.want); off > 0.03 {
			t.Errorf("quantile %v is %v, want %v", test.part, got, test.want)
		}
	}
	var none Histogram
	if got := none.Quantile(0.5); got != 0 {
		t.Errorf("the median of nothing is %v, want 0", got)
	}
}

func TestBuckets(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 31, 32, 63, 64, 65, 1000, 123456789, time.Hour} {
		if off := math.Abs(float64(middle(bucket(d)) - d)); off > float64(d)/32 {
			t.Errorf("%d is counted as %d", d, middle(bucket(d)))
		}
	}
}

func TestAll(t *testing.T) {
	var h Histogram
	for _, d := range []time.Duration{7, 3, 7, time.Second} {
		h.Add(d)
	}
	var sum, last time.Duration
	count := int64(0)
	for d, n := range h.All() {
		if d < last {
			t.Errorf("%v comes after %v", d, last)
		}
		last, count, sum = d, count+n, sum+time.Duration(n)*d
	}
	if off := time.Second - last; count != 4 || off.Abs() > 30*time.Millisecond || sum < 980*time.Millisecond {
		t.Errorf("%d durations, the last %v, in all %v; want 4, 1s and about 1s", count, last, sum)
	}
	for range h.All() {
		break
	}
}
