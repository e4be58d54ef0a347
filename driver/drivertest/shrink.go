package drivertest

import (
	"fmt"
	"slices"
	"time"
)

// shrink removes steps from a run that fails, as many as it can, while the run still fails.
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

// The number of tries of a failed round with fewer steps, since it may fail only sometimes.
const shrinkTries = 3

// smaller reports the fewest steps, among those found within a time, with which a round still fails.
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
