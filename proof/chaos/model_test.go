//go:build unix

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/history"
)

// lock returns a grant that the worker requested at call and believed from begin to end. Its lease would last to end + 5.
func lock(weight, token int64, call, begin, end time.Duration) *grant {
	return &grant{Hold: history.Hold{Name: "x", Weight: weight, Token: token, Begin: begin, End: end}, call: call, until: end + 5}
}

// back returns a grant that the worker released between end and done.
func back(weight, token int64, call, begin, end, done time.Duration) *grant {
	g := lock(weight, token, call, begin, end)
	g.leave(end)
	g.over(freed, done)
	return g
}

// lost marks a grant as lost in this way.
func lost(g *grant, end fate) *grant {
	g.over(end, g.End+6)
	return g
}

// away marks a grant as released at its end, without an answer.
func away(g *grant) *grant {
	g.leave(g.End)
	g.over(leaving, g.End+9)
	return g
}

func TestModels(t *testing.T) {
	const w = driver.All
	for _, tt := range []struct {
		name     string
		capacity int64
		grants   []*grant
		lax      []span
		want     string // empty if the history is in order
	}{
		{name: "mutex: one after the other", grants: []*grant{back(w, 1, 0, 1, 2, 3), back(w, 2, 0, 4, 5, 6)}},
		{name: "mutex: granted while it is given back", grants: []*grant{back(w, 1, 0, 1, 2, 5), back(w, 2, 1, 3, 6, 7)}},
		{name: "mutex: two holders", grants: []*grant{back(w, 1, 0, 1, 6, 7), back(w, 2, 0, 4, 5, 8)}, want: "no order"},
		{name: "mutex: token falls", grants: []*grant{back(w, 2, 0, 1, 2, 3), back(w, 1, 4, 5, 6, 7)}, want: "no order"},
		{name: "mutex: token stays", grants: []*grant{back(w, 2, 0, 1, 2, 3), back(w, 2, 4, 5, 6, 7)}, want: "no order"},
		{name: "mutex: tokens tell the order of calls that overlap", grants: []*grant{back(w, 2, 0, 9, 10, 11), back(w, 1, 0, 7, 7, 8)}},
		{name: "mutex: tokens rise against the order", grants: []*grant{back(w, 1, 0, 9, 10, 11), back(w, 2, 0, 7, 7, 8)}, want: "no order"},
		{name: "mutex: unlocked or not, nobody knows", grants: []*grant{away(lock(w, 1, 0, 1, 2)), back(w, 2, 0, 90, 91, 92)}},
		{name: "mutex: unlocked at once, nobody knows", grants: []*grant{away(lock(w, 1, 0, 1, 2)), back(w, 2, 0, 3, 4, 5)}},
		{name: "mutex: before it was unlocked without an answer", grants: []*grant{away(lock(w, 1, 0, 1, 4)), back(w, 2, 0, 2, 3, 5)}, want: "no order"},
		{name: "mutex: ran out", grants: []*grant{lost(lock(w, 1, 0, 1, 2), expired), back(w, 2, 0, 8, 9, 10)}},
		{name: "mutex: ran out too early", grants: []*grant{lost(lock(w, 1, 0, 1, 2), expired), back(w, 2, 0, 6, 9, 10)}, want: "no order"},
		{name: "mutex: the store said that it is gone", grants: []*grant{lost(lock(w, 1, 0, 1, 2), gone), back(w, 2, 0, 6, 9, 10)}},
		{name: "mutex: holder killed", grants: []*grant{lock(w, 1, 0, 1, 2), back(w, 2, 0, 3, 9, 10)}},
		{name: "mutex: granted before its holder was killed", grants: []*grant{lock(w, 1, 0, 1, 4), back(w, 2, 0, 3, 9, 10)}, want: "no order"},
		{name: "mutex: unlock freed another's", want: "no order", grants: []*grant{
			lost(lock(w, 1, 0, 1, 2), expired), back(w, 2, 0, 8, 20, 21), back(w, 3, 10, 12, 13, 14), // the first unlocks at 11
		}},
		{name: "mutex: forgotten when nothing is promised", lax: []span{{3, 9}},
			grants: []*grant{back(w, 5, 0, 1, 6, 7), back(w, 2, 3, 4, 5, 8)}},
		{name: "mutex: forgotten before that", lax: []span{{5, 9}},
			grants: []*grant{back(w, 1, 0, 1, 6, 7), back(w, 2, 3, 4, 5, 8)}, want: "no order"},
		{name: "mutex: token falls after that", lax: []span{{5, 9}},
			grants: []*grant{back(w, 5, 0, 1, 2, 3), back(w, 2, 10, 11, 12, 13)}, want: "no order"},

		{name: "readers: beside each other", grants: []*grant{back(1, 2, 0, 1, 8, 9), back(1, 1, 0, 2, 3, 4), back(w, 3, 0, 10, 11, 12)}},
		{name: "readers: beside a writer", grants: []*grant{back(1, 1, 0, 1, 8, 9), back(w, 2, 0, 2, 3, 4)}, want: "no order"},
		{name: "readers: a writer beside a reader", grants: []*grant{back(w, 1, 0, 1, 8, 9), back(1, 2, 0, 2, 3, 4)}, want: "no order"},
		{name: "readers: token below that of a writer before", grants: []*grant{back(w, 2, 0, 1, 2, 3), back(1, 1, 4, 5, 6, 7)}, want: "no order"},
		{name: "readers: token of a writer below that of a reader before", grants: []*grant{back(1, 2, 0, 1, 2, 3), back(w, 1, 4, 5, 6, 7)}, want: "no order"},

		{name: "permits: as many as there are", capacity: 2, grants: []*grant{back(1, 2, 0, 1, 8, 9), back(1, 1, 0, 2, 5, 6), back(1, 3, 0, 7, 8, 9)}},
		{name: "permits: too many", capacity: 2, grants: []*grant{back(1, 1, 0, 1, 8, 9), back(1, 2, 0, 2, 6, 7), back(1, 3, 0, 4, 6, 7)}, want: "no order"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			most := tt.capacity
			if most == 0 {
				most = w
			}
			o := &outcome{fences: true}
			o.order(tt.grants, map[string]int64{"x": most}, tt.lax)
			if got := strings.Join(o.wrong, ""); got == "" != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if o.checked != 2*len(tt.grants) || len(o.inconclusive) > 0 {
				t.Errorf("%d operations were checked (%q), want %d", o.checked, o.inconclusive, 2*len(tt.grants))
			}
		})
	}
}

// TestTokensThatAreNotPromised checks that tokens may fall in a store that promises none.
func TestTokensThatAreNotPromised(t *testing.T) {
	o := &outcome{}
	o.order([]*grant{back(driver.All, 2, 0, 1, 2, 3), back(driver.All, 1, 4, 5, 6, 7)}, map[string]int64{"x": driver.All}, nil)
	if err := o.err(); err != nil {
		t.Error(err)
	}
}

// TestInconclusive checks that a run whose check takes too long does not pass: the last of many holds is one too many, and
// the search for their order takes longer than its time.
func TestInconclusive(t *testing.T) {
	var grants []*grant
	for i := range int64(40) {
		grants = append(grants, away(lock(1, i+1, 0, 100, 101)))
	}
	grants = append(grants, back(driver.All, 1, 102, 103, 104, 105))
	grants = append(grants, back(driver.All, 1, 106, 107, 108, 109))
	o := &outcome{fences: true}
	o.orderWithin(50*time.Millisecond, grants, map[string]int64{"x": driver.All}, nil)
	if err := o.err(); err == nil || len(o.wrong) > 0 || !strings.Contains(err.Error(), "not found out within 50ms") {
		t.Errorf("the check came to %v; want that it was not found out", err)
	}
	var text strings.Builder
	o.print(&text)
	if !strings.Contains(text.String(), "INCONCLUSIVE: x: ") || !strings.Contains(o.line(), "findings=inconclusive") {
		t.Errorf("the report is %q, the line of the log %q", text.String(), o.line())
	}
}

// TestHeard checks how the run reads a worker's output.
func TestHeard(t *testing.T) {
	p := &process{holds: map[int]*grant{}}
	for _, line := range []string{
		"begin 1 x 1 7 10 20 50", "still 1 30 60", "leave 1 40", "over 1 2 45",
		"begin 2 x 1 8 10 20 50", "over 2 3 55", "over 2 2 60",
		"begin 3 x 1 9 10 20 50", "over 3 4 55",
		"begin 4 x 1 9 10 20 50", "leave 4 55", "over 4 1 90",
		"begin 5 x 1 9 10 20 50", "still 5 30 60", "error no", "over 6 1 1",
	} {
		p.heard(1, line)
	}
	for id, want := range []grant{
		1: {fate: freed, call: 10, until: 60, left: 40, done: 45},
		2: {fate: expired, call: 10, until: 50},
		3: {fate: gone, call: 10, until: 50},
		4: {fate: leaving, call: 10, until: 50, left: 55, done: 90},
		5: {fate: held, call: 10, until: 60},
	} {
		if id == 0 {
			continue
		}
		got := *p.holds[id]
		got.Hold = history.Hold{}
		if got != want {
			t.Errorf("hold %d is %+v, want %+v", id, got, want)
		}
	}
	for id, want := range map[int]time.Duration{1: 40, 2: 50, 3: 20, 4: 50, 5: 30} {
		if got := p.holds[id].earliest(); got != want {
			t.Errorf("hold %d ended at %d at the earliest, want %d", id, got, want)
		}
	}
	if len(p.holds) != 5 || len(p.errors) != 1 {
		t.Errorf("%d holds and %q, want 5 and one error", len(p.holds), p.errors)
	}
}
