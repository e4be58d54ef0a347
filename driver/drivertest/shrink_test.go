package drivertest

import (
	"slices"
	"testing"
)

func TestShrink(t *testing.T) {
	tests := []struct {
		name  string
		needs []int // the steps without which it does not fail
	}{
		{"one", []int{5}},
		{"the first and the last", []int{0, 11}},
		{"neighbours", []int{3, 4}},
		{"all", []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
	}
	for _, test := range tests {
		steps := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
		got := shrink(steps, func(rest []int) bool {
			return !slices.ContainsFunc(test.needs, func(n int) bool { return !slices.Contains(rest, n) })
		})
		if !slices.Equal(got, test.needs) {
			t.Errorf("%s: %v is left; want %v", test.name, got, test.needs)
		}
	}
}
