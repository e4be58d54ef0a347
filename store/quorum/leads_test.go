package quorum

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
)

// A skipped lead leads no claims on its name for a while.
func TestSkippedLead(t *testing.T) {
	t.Parallel()
	leads, lead, now := newLeads(), &node{name: "x"}, time.Unix(1e9, 0)
	leads.skip(lead, "name", now)
	for after, want := range map[time.Duration]*node{0: lead, skippedFor: lead, skippedFor + 1: nil} {
		if got := leads.skips("name", now.Add(after)); got != want {
			t.Errorf("after %v, %v is skipped; want %v", after, got, want)
		}
		if got := leads.skips("other", now.Add(after)); got != nil {
			t.Errorf("after %v, %v is skipped for another name; want none", after, got)
		}
	}
}

// A lead has lost a claim if it granted others beside it for a while, but not if the claim was just leaving.
func TestForgetfulLead(t *testing.T) {
	t.Parallel()
	x, y := &node{name: "x"}, &node{name: "y"}
	by, other := &driver.ClaimInfo{Ticket: 5, Record: "by"}, &driver.ClaimInfo{Ticket: 6, Record: "other"}
	type seen struct {
		lead *node
		by   *driver.ClaimInfo
		at   time.Duration
	}
	for _, test := range []struct {
		what string
		seen []seen
		lost bool
	}{
		{"once", []seen{{x, by, 0}}, false},
		{"twice at once", []seen{{x, by, 0}, {x, by, stuckAfter - 1}}, false},
		{"for a while", []seen{{x, by, 0}, {x, by, stuckAfter}}, true},
		{"again and again", []seen{{x, by, 0}, {x, by, stuckMost}, {x, by, 2 * stuckMost}}, true},
		{"again after long", []seen{{x, by, 0}, {x, by, stuckMost + 1}}, false},
		{"another lead", []seen{{x, by, 0}, {y, by, stuckAfter}}, false},
		{"another claim", []seen{{x, by, 0}, {x, other, stuckAfter}}, false},
		{"the claim again after another", []seen{{x, by, 0}, {x, other, 1}, {x, by, stuckAfter}}, false},
	} {
		leads, lost := newLeads(), false
		for _, s := range test.seen {
			lost = leads.forgets(three(), s.lead, "name", s.by, time.Unix(1e9, 0).Add(s.at))
		}
		if lost != test.lost {
			t.Errorf("a lead that granted beside a claim %s has lost it: %v; want %v", test.what, lost, test.lost)
		}
	}
}

// A claim hears its next step once, and before that, once, whether it was late.
func TestToldOnce(t *testing.T) {
	t.Parallel()
	leads, lead := newLeads(), &node{name: "x"}
	if _, told := leads.heard("a"); told || leads.wasLate("a") {
		t.Error("a claim that was told nothing heard something, or was late")
	}
	want := next{lead: lead, waits: true}
	late := want
	late.late = true
	leads.tell("a", late)
	if first, again := leads.wasLate("a"), leads.wasLate("a"); !first || again {
		t.Errorf("late = %v, then %v; want that it is said once", first, again)
	}
	if got, told := leads.heard("a"); !told || got != want {
		t.Errorf("heard %+v, %v; want %+v", got, told, want)
	}
	if _, told := leads.heard("a"); told {
		t.Error("a claim heard twice what it was told once")
	}
}

// Claims that miss a name leave more time to each other, up to a bound, and less when one of them came to hold.
func TestContention(t *testing.T) {
	t.Parallel()
	c := &contention{names: map[string]int{}}
	for _, test := range []struct {
		what string
		do   func(name string)
		n    int
		want int
	}{
		{"one that holds", c.caught, 1, 0},
		{"one that misses", c.missed, 1, 1},
		{"one that holds then", c.caught, 1, 0},
		{"many that miss", c.missed, 2 * spreads, spreads},
		{"two that hold", c.caught, 2, spreads - 2},
		{"many that hold", c.caught, spreads, 0},
	} {
		for range test.n {
			test.do("name")
		}
		if !c.below("name", test.want+1) || test.want > 0 && c.below("name", test.want) || !c.below("other", 1) {
			t.Errorf("after %s, %v missed the name; want %d", test.what, c.names, test.want)
		}
		for range 100 {
			if wait := c.spread("name"); wait < 0 || wait >= spread<<test.want {
				t.Fatalf("after %s, a claim waits for %v; want less than %v", test.what, wait, spread<<test.want)
			}
		}
	}
	for i := range manyContended + 10 {
		c.missed(fmt.Sprint("name", i))
	}
	if n := len(c.names); n > manyContended {
		t.Errorf("%d names are remembered; want at most %d", n, manyContended)
	}
}

// From a draw on, a claim has another id on a node, and leaves by the latest ids before it. When its ids are forgotten, it
// has its own again. While it holds, they are not forgotten.
func TestDrawnIDs(t *testing.T) { synctest.Test(t, drawnIDs) }

func drawnIDs(t *testing.T) {
	all := &ids{drawn: map[string]*claimIDs{}}
	c := &driver.Claim{ID: "a", Ticket: 5}
	if own := all.as(c, 1); own != c || len(all.earlier(c, 1)) > 0 {
		t.Errorf("without a draw, the claim is %+v, and leaves by %v", own, all.earlier(c, 1))
	}
	for range mostEarlier + 3 {
		all.draw("a", 1)
	}
	if own := all.as(c, 1); own.ID != fmt.Sprint("a-", mostEarlier+3) || own.Ticket != c.Ticket || all.as(c, 0).ID != "a" {
		t.Errorf("the claim is %+v on its node, %+v on another", own, all.as(c, 0))
	}
	earlier := all.earlier(c, 1)
	last := fmt.Sprint("a-", mostEarlier+2)
	if len(earlier) != mostEarlier || earlier[0].ID != "a-3" || earlier[mostEarlier-1].ID != last || earlier[0].Ticket != 0 {
		t.Errorf("the claim leaves by %d ids, from %+v on; want the latest %d, without a ticket",
			len(earlier), earlier[0], mostEarlier)
	}
	never, always := func(string) bool { return false }, func(string) bool { return true }
	soon := time.Now().Add(time.Hour)
	all.forget(time.Now().Add(-time.Hour), never)
	if all.forget(soon, always); all.as(c, 1).ID == "a" {
		t.Error("the ids of a claim that holds, or was just asked for, are forgotten")
	}
	if all.forget(soon, never); all.as(c, 1) != c {
		t.Error("the ids of a claim that is over are not forgotten")
	}
	all.replace("a", &claimIDs{nodes: map[int]*nodeIDs{2: {drawn: 7}}})
	if all.as(c, 2).ID != "a-7" || all.as(c, 1).ID != "a" {
		t.Errorf("the claim is %q and %q; want the ids that it was given", all.as(c, 2).ID, all.as(c, 1).ID)
	}
	if all.replace("a", &claimIDs{}); len(all.drawn) > 0 {
		t.Error("a claim without other ids is remembered")
	}
}
