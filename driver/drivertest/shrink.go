package drivertest

import (
	"fmt"
	"slices"
	"time"
)

// shrink leaves steps out of a run that fails, more and more of them, while it fails without them.
func shrink(steps []int, fails func(rest []int) bool) []int {
	for size := len(steps) / 2; size > 0; size /= 2 {
		for from := 0; from < len(steps); {
			rest := slices.Concat(steps[:from], steps[min(from+size, len(steps)):])
			if len(rest) > 0 && fails(rest) {
				steps = rest
			} else {
				from += size
			}
		}
	}
	return steps
}

// How often a round that failed is tried with fewer steps. It may fail now and then only.
const shrinkTries = 3

// smaller reports the fewest steps with which a round fails too that are found within some time.
func (c *crowd) smaller(number int, within time.Duration) string {
	var all []int
	for i := range crowdClients * crowdWorkers * crowdSteps {
		all = append(all, i)
	}
	latest, deadline := "", time.Now().Add(within)
	fewest := shrink(all, func(rest []int) bool {
		for range shrinkTries {
			if time.Now().After(deadline) {
				return false
			}
			if fault := c.round(number, rest); fault != "" {
				latest = fault
				return true
			}
		}
		return false
	})
	if latest == "" {
		return ""
	}
	return fmt.Sprintf("\nit fails with %d of its %d steps too: %s", len(fewest), len(all), latest)
}
