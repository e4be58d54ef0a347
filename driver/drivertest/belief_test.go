package drivertest

import (
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// TestBelieved is a table of short histories of one name. Times are the places of the calls in it, in seconds.
func TestBelieved(t *testing.T) {
	claim := func(id string, ttl time.Duration) driver.Claim {
		return driver.Claim{ID: id, Record: id, Weight: 1, Capacity: 1, TTL: ttl}
	}
	enter := func(id string, ticket int64, holds bool) *call {
		return &call{verb: "enter", claim: claim(id, time.Hour), place: driver.Place{Ticket: ticket, Holds: holds}}
	}
	told := func(id string, ticket int64) *call {
		return &call{verb: "await", claim: claim(id, time.Hour), place: driver.Place{Ticket: ticket, Holds: true}}
	}
	leave := func(id string) *call { return &call{verb: "leave", claim: claim(id, time.Hour)} }
	removed := func(ticket int64) *call { return &call{verb: "break", claim: driver.Claim{Ticket: ticket}} }
	brief := enter("a", 1, true)
	brief.claim.TTL = time.Second
	lasts := func(left time.Duration) *call { // a lease of three and a half seconds
		c := enter("a", 1, true)
		c.claim.TTL, c.place.TTL = 3500*time.Millisecond, left
		return c
	}

	tests := []struct {
		name  string
		calls []*call
		wrong string // what is said; empty means nothing
	}{
		{"one after the other", []*call{enter("a", 1, true), leave("a"), enter("b", 2, true)}, ""},
		{"both hold", []*call{enter("a", 1, true), enter("b", 2, true)}, "a, b"},
		{"the lease of the first is over", []*call{brief, enter("b", 2, true), enter("c", 3, false)}, ""},
		{"the lease of the first lasts", []*call{lasts(3500 * time.Millisecond), enter("b", 2, true)}, "a, b"},
		{"the lease of the first was told to be shorter", []*call{lasts(2500 * time.Millisecond), enter("b", 2, true)}, ""},
		{"it was told to be shorter by half", []*call{lasts(1700 * time.Millisecond), enter("b", 2, true)}, "a, b"},
		{"a ticket falls", []*call{enter("a", 2, true), leave("a"), enter("b", 1, true)}, "b holds with ticket 1 after a"},
		{"removed by hand", []*call{enter("a", 1, true), removed(1), enter("b", 2, true)}, ""},
		{"removed by hand, and told of its turn by then", []*call{enter("a", 1, false), removed(1), enter("b", 2, true),
			told("a", 1)}, ""},
		{"removed by hand, entered, and told that it holds", []*call{enter("a", 1, false), removed(1), enter("b", 2, true),
			enter("a", 3, false), told("a", 3)}, "a, b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for i, c := range test.calls {
				c.began, c.ended = time.Duration(2*i)*time.Second, time.Duration(2*i+1)*time.Second
			}
			h := &history{capacity: 1, traits: driver.Traits{Fencing: driver.DurableFencing}, calls: test.calls}
			got := h.believed()
			if got != test.wrong && (test.wrong == "" || !strings.Contains(got, test.wrong)) {
				t.Errorf("got %q; want %q", got, test.wrong)
			}
		})
	}
}
