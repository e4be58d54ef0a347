package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// TestBelieved is a table of short histories of one name. Times are the indexes of the calls in it, in seconds.
func TestBelieved(t *testing.T) {
	claim := func(id string, ttl time.Duration) driver.Claim {
		return driver.Claim{ID: id, Record: id, Weight: 1, Capacity: 1, TTL: ttl}
	}
	enter := func(id string, ticket int64, holds bool) *Call {
		return &Call{Verb: "enter", Claim: claim(id, time.Hour), Place: driver.Place{Ticket: ticket, Holds: holds}}
	}
	told := func(id string, ticket int64) *Call {
		return &Call{Verb: "await", Claim: claim(id, time.Hour), Place: driver.Place{Ticket: ticket, Holds: true}}
	}
	leave := func(id string) *Call { return &Call{Verb: "leave", Claim: claim(id, time.Hour)} }
	removed := func(ticket int64) *Call { return &Call{Verb: "break", Claim: driver.Claim{Ticket: ticket}} }
	brief := enter("a", 1, true)
	brief.Claim.TTL = time.Second
	lasts := func(left time.Duration) *Call { // a lease of three and a half seconds
		c := enter("a", 1, true)
		c.Claim.TTL, c.Place.TTL = 3500*time.Millisecond, left
		return c
	}

	tests := []struct {
		name  string
		calls []*Call
		wrong string // the reported contradiction; empty means none
	}{
		{"one after the other", []*Call{enter("a", 1, true), leave("a"), enter("b", 2, true)}, ""},
		{"both hold", []*Call{enter("a", 1, true), enter("b", 2, true)}, "a, b"},
		{"the lease of the first is over", []*Call{brief, enter("b", 2, true), enter("c", 3, false)}, ""},
		{"the lease of the first lasts", []*Call{lasts(3500 * time.Millisecond), enter("b", 2, true)}, "a, b"},
		{"the lease of the first was told to be shorter", []*Call{lasts(2500 * time.Millisecond), enter("b", 2, true)}, ""},
		{"it was told to be shorter by half", []*Call{lasts(1700 * time.Millisecond), enter("b", 2, true)}, "a, b"},
		{"a ticket falls", []*Call{enter("a", 2, true), leave("a"), enter("b", 1, true)}, "b holds with ticket 1 after a"},
		{"removed by hand", []*Call{enter("a", 1, true), removed(1), enter("b", 2, true)}, ""},
		{"removed by hand, and told of its turn by then", []*Call{enter("a", 1, false), removed(1), enter("b", 2, true),
			told("a", 1)}, ""},
		{"removed by hand, entered, and told that it holds", []*Call{enter("a", 1, false), removed(1), enter("b", 2, true),
			enter("a", 3, false), told("a", 3)}, "a, b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for i, c := range test.calls {
				c.Began, c.Ended = time.Duration(2*i)*time.Second, time.Duration(2*i+1)*time.Second
			}
			h := &History{Capacity: 1, Traits: driver.Traits{Fencing: driver.DurableFencing}, Calls: test.calls}
			got := h.believed()
			if got != test.wrong && (test.wrong == "" || !strings.Contains(got, test.wrong)) {
				t.Errorf("got %q; want %q", got, test.wrong)
			}
		})
	}
}
