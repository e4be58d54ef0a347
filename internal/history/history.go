// Package history finds contradictions in the beliefs of lock holders.
package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Hold is one holding of a lock, as its holder believed. Its times are from one clock of the machine that is never
// stepped, read before a Check that found the lease trusted.
type Hold struct {
	Worker     int
	Name       string
	Weight     int64
	Token      int64
	Begin, End time.Duration
}

func (h *Hold) String() string {
	return fmt.Sprintf("worker %d, weight %d, token %d, from %v to %v", h.Worker, h.Weight, h.Token, h.Begin, h.End)
}

// A Finding is an event in a history that a store must prevent, with its time.
type Finding struct {
	At   time.Duration
	Text string
}

// Overlaps finds the moments at which more holders believed to hold a name than its capacity allows.
func Overlaps(holds []*Hold, capacity map[string]int64) (found []Finding) {
	for name, most := range capacity {
		var inside []*Hold
		for _, h := range in(holds, name) {
			inside = slices.DeleteFunc(inside, func(o *Hold) bool { return o.End < h.Begin })
			inside = append(inside, h)
			sum := int64(0)
			for _, o := range inside {
				sum += o.Weight
			}
			if sum > most {
				text := name + ": two hold that exclude each other:"
				for _, o := range inside {
					text += "\n    " + o.String()
				}
				found = append(found, Finding{h.Begin, text})
			}
		}
	}
	return found
}

// Falls finds each token that is not larger than the token of an earlier grant that it excluded.
func Falls(holds []*Hold, capacity map[string]int64) (found []Finding) {
	for name, most := range capacity {
		if most != driver.All {
			continue
		}
		var all, writer *Hold // the holds with the largest token so far, of all and of writers
		for _, h := range in(holds, name) {
			before := writer
			if h.Weight == driver.All {
				before = all
			}
			if before != nil && before.End < h.Begin && h.Token <= before.Token {
				text := fmt.Sprintf("%s: a token falls:\n    %v\n    %v", name, before, h)
				found = append(found, Finding{h.Begin, text})
			}
			if all == nil || h.Token > all.Token {
				all = h
			}
			if h.Weight == driver.All && (writer == nil || h.Token > writer.Token) {
				writer = h
			}
		}
	}
	return found
}

// in returns the holds of a name, in the order of their beginnings.
func in(holds []*Hold, name string) []*Hold {
	var list []*Hold
	for _, h := range holds {
		if h.Name == name {
			list = append(list, h)
		}
	}
	slices.SortStableFunc(list, func(a, b *Hold) int { return cmp.Compare(a.Begin, b.Begin) })
	return list
}
