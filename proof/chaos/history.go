//go:build unix

package main

import (
	"slices"
	"time"

	"github.com/stilelock/stile/internal/history"
)

// A span is a time in which a store may forget who holds, before the holders find out.
type span struct{ begin, end time.Duration }

// promised separates the findings that the store promised to prevent from the findings in the spans, in which it promised
// nothing.
func promised(found []history.Finding, lax []span) (wrong, excused []string) {
	for _, f := range found {
		if slices.ContainsFunc(lax, func(s span) bool { return s.begin <= f.At && f.At <= s.end }) {
			excused = append(excused, f.Text)
		} else {
			wrong = append(wrong, f.Text)
		}
	}
	return wrong, excused
}

// covered returns the total time of the spans. They are in order, and may overlap.
func covered(lax []span) (sum time.Duration) {
	end := time.Duration(0)
	for _, s := range lax {
		sum += max(0, s.end-max(s.begin, end))
		end = max(end, s.end)
	}
	return sum
}
