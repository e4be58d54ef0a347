package quorum

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// A node that has not heard of the former holder's Leave shows its claim beside the present one. The driver names the
// present claim, whatever the clocks are by which the nodes give tickets.
func TestLaterHolderIsNamed(t *testing.T) {
	t.Parallel()
	shows := func(c driver.ClaimInfo) vote { return vote{came: true, place: driver.Place{Ahead: 1, Blocker: c}} }
	former := shows(driver.ClaimInfo{Ticket: 9e15, Since: time.Minute, Record: "former"})
	present := shows(driver.ClaimInfo{Ticket: 1e15, Since: time.Second, Record: "present"})
	silent := vote{came: true, err: errors.New("no answer")}
	m := three()
	m.ranked = false
	for _, votes := range [][]vote{{former, present, silent}, {present, silent, former}, {silent, former, present}} {
		p, err := m.missed(&driver.Claim{Try: true}, votes, nil, true)
		if err != nil || p.Holds || p.Blocker.Record != "present" || p.Blocker.Ticket != 0 {
			t.Errorf("enter = %+v, %v; want that the present holder is in the way, without the ticket of one node", p, err)
		}
	}
}

// A claim that waits tries again when a majority may be free.
func TestRetryOfAMajority(t *testing.T) {
	t.Parallel()
	in := func(retry time.Duration) vote {
		return vote{came: true, place: driver.Place{Holds: retry == 0, Retry: retry}}
	}
	for _, test := range []struct {
		votes []vote
		want  time.Duration
	}{
		{[]vote{in(3), in(1), in(2)}, 2},
		{[]vote{in(3), in(0), in(2)}, 2},
		{[]vote{in(3), {}, in(1)}, 3},
		{[]vote{in(3), {}, {}}, 0}, // nobody knows when a second node is free
	} {
		if p, err := three().missed(&driver.Claim{}, test.votes, nil, true); err != nil || p.Retry != test.want {
			t.Errorf("missed with %+v = %+v, %v; want to try again after %v", test.votes, p, err, test.want)
		}
	}
}

// Observers see a claim that a majority shows, with the later of its records.
func TestAgreedClaim(t *testing.T) {
	t.Parallel()
	claim := func(ticket int64, record string) driver.ClaimInfo {
		return driver.ClaimInfo{Ticket: ticket, Record: record}
	}
	left := claim(5, "a")
	left.Left = true
	later := claim(5, WithVersion("b", 7))
	for _, test := range []struct {
		what  string
		shown []driver.ClaimInfo
		want  string
	}{
		{"one shows it", []driver.ClaimInfo{claim(5, "a")}, ""},
		{"two do", []driver.ClaimInfo{claim(5, "a"), claim(5, "a")}, "a"},
		{"two do, and one another", []driver.ClaimInfo{claim(4, "c"), claim(5, "a"), claim(5, "a")}, "a"},
		{"each shows another ticket", []driver.ClaimInfo{claim(4, "a"), claim(5, "a"), claim(6, "a")}, ""},
		{"each shows another record", []driver.ClaimInfo{claim(5, "a"), claim(5, "c")}, ""},
		{"one has heard of the change", []driver.ClaimInfo{claim(5, "a"), later}, "b"},
		{"one has heard that it left", []driver.ClaimInfo{claim(5, "a"), left}, ""},
	} {
		if c, ok := three().agreed(test.shown); ok != (test.want != "") || c.Record != test.want {
			t.Errorf("%s: %+v, %v; want %q", test.what, c, ok, test.want)
		}
	}
}

// Observers see how long ago a claim entered by the node that has it longest, since a node that was given it again shows less.
// They see the rest of the lease that a majority shows, whichever node missed renewals or answers first.
func TestAgeAndLeaseOfAMajority(t *testing.T) {
	t.Parallel()
	first := driver.ClaimInfo{Ticket: 5, Since: 9, Remaining: 4}
	again := driver.ClaimInfo{Ticket: 5, Since: 1, Remaining: 7}
	lags := driver.ClaimInfo{Ticket: 5, Since: 8, Remaining: 2}
	for _, shown := range [][]driver.ClaimInfo{{first, again, lags}, {again, lags, first}, {lags, first, again}} {
		listed, ok := three().agreed(shown)
		removed, err := three().broken(false, shown, nil)
		if want := (driver.ClaimInfo{Ticket: 5, Since: 9, Remaining: 4}); !ok || err != nil || listed != want || removed != want {
			t.Errorf("%+v: listed %+v, %v, and removed %+v, %v; want %+v", shown, listed, ok, removed, err, want)
		}
	}
}

// A claim that is removed by hand was there if a majority had it, and was not if a majority lacked it. In between nobody
// knows.
func TestBrokenClaim(t *testing.T) {
	t.Parallel()
	had := []driver.ClaimInfo{{Ticket: 5, Record: "a"}, {Ticket: 5, Record: WithVersion("b", 7)}}
	down, cannot := errors.New("down"), driver.ErrUnsupported
	gone := driver.ErrGone
	for _, test := range []struct {
		what    string
		ask     bool
		removed []driver.ClaimInfo
		errs    []error
		want    string // the record, or how it failed
	}{
		{"two had it", false, had, []error{gone}, "b"},
		{"two are asked", true, had, []error{down}, "b"},
		{"one had it", false, had[:1], []error{gone, gone}, "unknown"},
		{"one is asked", true, had[:1], []error{gone, gone}, "gone"},
		{"one is asked, and one is down", true, had[:1], []error{gone, down}, "unreachable"},
		{"none had it", false, nil, []error{gone, gone, gone}, "gone"},
		{"two do not have it", false, nil, []error{down, gone, gone}, "gone"},
		{"two are down", false, nil, []error{down, gone, down}, "unreachable"},
		{"none can", true, nil, []error{cannot, cannot, cannot}, "unsupported"},
	} {
		c, err := three().broken(test.ask, test.removed, test.errs)
		got := c.Record
		switch {
		case errors.Is(err, driver.ErrGone):
			got = "gone"
		case errors.Is(err, driver.ErrUnsupported):
			got = "unsupported"
		case driver.IsUnreachable(err):
			got = "unreachable"
		case err != nil && driver.OutcomeOf(err) == driver.OutcomeUnknown:
			got = "unknown"
		}
		if got != test.want {
			t.Errorf("%s: %+v, %v; want %q", test.what, c, err, test.want)
		}
	}
}

// A client takes up another process's claim that stands on a majority. The claim is gone only if a majority lacks it.
func TestTakenUpClaim(t *testing.T) {
	t.Parallel()
	for _, p := range polls() {
		no := p.says("gone", "foreign")
		for stands := range 4 - no {
			err := three().takenUp(p.votes(), stands)
			if errors.Is(err, driver.ErrGone) != (no >= 2) || (err == nil) != (no < 2 && stands >= 2) {
				t.Errorf("it stands on %d nodes%v: %v; want it taken up by two, and gone by two", stands, p, err)
			}
		}
	}
}

// A node that did not answer may still confirm the ticket later.
func TestUnsureConfirmations(t *testing.T) {
	t.Parallel()
	for _, p := range polls() {
		unsure, err := three().disagreed([]int{0, 2}, p.votes())
		for _, i := range []int{0, 1, 2} {
			if slices.Contains(unsure, i) != (i != 1 && p[i].lost) {
				t.Errorf("asked the first and the last, which answered%v: %v may confirm yet", p, unsure)
			}
		}
		if !driver.IsUnreachable(err) || driver.OutcomeOf(err) != driver.OutcomeUnknown {
			t.Errorf("disagreed%v = %v; want that its outcome is unknown", p, err)
		}
	}
}

// Too few answers make the store unreachable, unless most nodes deny the request itself for good.
func TestTooFewAnswers(t *testing.T) {
	t.Parallel()
	fails := func(err error) vote { return vote{came: true, err: err} }
	gone, denied := fails(driver.ErrGone), fails(driver.Refused(errors.New("no memory")))
	loading := fails(driver.Refused(driver.Unreachable(errors.New("loading"))))
	for _, test := range []struct {
		votes       []vote
		want        string
		unreachable bool
	}{
		{[]vote{gone, denied, denied}, "2 of 3 nodes refuse, and a majority is 2: node y: no memory", false},
		{[]vote{gone, denied, {}}, "1 of 3 nodes take part, and a majority is 2: node y: no memory", true},
		{[]vote{{}, loading, loading}, "0 of 3 nodes take part, and a majority is 2: node y: loading", true},
		{[]vote{gone, {}, {}}, "1 of 3 nodes take part, and a majority is 2", true},
	} {
		if err := three().short(test.votes); err.Error() != test.want || driver.IsUnreachable(err) != test.unreachable {
			t.Errorf("%v, unreachable %v; want %q, %v", err, driver.IsUnreachable(err), test.want, test.unreachable)
		}
	}
}
