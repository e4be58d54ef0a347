//go:build unix

package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A hold is one holding of a lock, as its holder believed it. Times are those of one clock of the machine, which never
// steps: each was read before a Check that found the lease trusted.
type hold struct {
	worker     int
	name       string
	weight     int64
	token      int64
	begin, end time.Duration
}

func (h *hold) String() string {
	return fmt.Sprintf("worker %d, weight %d, token %d, from %v to %v", h.worker, h.weight, h.token, h.begin, h.end)
}

// A finding is something in a history that a store must not let come about, and when it did.
type finding struct {
	at   time.Duration
	text string
}

// A span is a time in which a store may forget who holds, and whoever held does not know yet.
type span struct{ begin, end time.Duration }

// promised parts the findings that a store promised to prevent from those in the spans, in which it promised nothing.
func promised(found []finding, lax []span) (wrong, excused []string) {
	for _, f := range found {
		if slices.ContainsFunc(lax, func(s span) bool { return s.begin <= f.at && f.at <= s.end }) {
			excused = append(excused, f.text)
		} else {
			wrong = append(wrong, f.text)
		}
	}
	return wrong, excused
}

// covered returns how much of the time the spans take up. They are in order, and may overlap.
func covered(lax []span) (sum time.Duration) {
	end := time.Duration(0)
	for _, s := range lax {
		sum += max(0, s.end-max(s.begin, end))
		end = max(end, s.end)
	}
	return sum
}

// overlaps returns where more believed that they hold a name than fit its capacity.
func overlaps(holds []*hold, capacity map[string]int64) (found []finding) {
	for name, most := range capacity {
		var inside []*hold
		for _, h := range in(holds, name) {
			inside = slices.DeleteFunc(inside, func(o *hold) bool { return o.end < h.begin })
			inside = append(inside, h)
			sum := int64(0)
			for _, o := range inside {
				sum += o.weight
			}
			if sum > most {
				text := name + ": two hold that exclude each other:"
				for _, o := range inside {
					text += "\n    " + o.String()
				}
				found = append(found, finding{h.begin, text})
			}
		}
	}
	return found
}

// falls returns where a token is not larger than that of a grant before it that it excluded.
func falls(holds []*hold, capacity map[string]int64) (found []finding) {
	for name, most := range capacity {
		if most != driver.All {
			continue
		}
		var all, writer *hold // those with the largest token so far, of all and of writers
		for _, h := range in(holds, name) {
			before := writer
			if h.weight == driver.All {
				before = all
			}
			if before != nil && before.end < h.begin && h.token <= before.token {
				text := fmt.Sprintf("%s: a token falls:\n    %v\n    %v", name, before, h)
				found = append(found, finding{h.begin, text})
			}
			if all == nil || h.token > all.token {
				all = h
			}
			if h.weight == driver.All && (writer == nil || h.token > writer.token) {
				writer = h
			}
		}
	}
	return found
}

// in returns the holds of a name, in the order in which they began.
func in(holds []*hold, name string) []*hold {
	var list []*hold
	for _, h := range holds {
		if h.name == name {
			list = append(list, h)
		}
	}
	slices.SortStableFunc(list, func(a, b *hold) int { return cmp.Compare(a.begin, b.begin) })
	return list
}
