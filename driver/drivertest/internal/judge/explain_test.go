package judge

import (
	"context"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// TestExplain is a table of short histories of one name. Times are the indexes of the calls in it, unless they say
// otherwise.
func TestExplain(t *testing.T) {
	claim := func(id string) driver.Claim {
		return driver.Claim{ID: id, Record: id, Weight: 1, Capacity: 1, TTL: time.Hour, Wait: time.Hour}
	}
	enter := func(id string, ticket int64, holds bool, ahead int) *Call {
		return &Call{Verb: "enter", Claim: claim(id), Place: driver.Place{Ticket: ticket, Holds: holds, Ahead: ahead}}
	}
	try := func(id string, ticket int64) *Call {
		c := enter(id, ticket, ticket != 0, 0)
		c.Claim.Try = true
		return c
	}
	verb := func(verb, id string, err error) *Call { return &Call{Verb: verb, Claim: claim(id), Err: err} }
	list := func(claims ...driver.ClaimInfo) *Call { return &Call{Verb: "list", List: claims} }
	lasting := func(c *Call, from, to int) *Call {
		c.Began, c.Ended = time.Duration(2*from), time.Duration(2*to+1)
		return c
	}
	unknown := context.DeadlineExceeded
	leaving, kept := verb("leave", "a", nil), verb("expire", "a", nil)
	leaving.Keep, kept.Keep = time.Minute, time.Minute
	over := func(at int) *Call { // what leaving keeps
		c := *kept
		return lasting(&c, at, at)
	}
	removed := func(ticket int64, err error) *Call {
		return &Call{Verb: "break", Claim: driver.Claim{Ticket: ticket}, Err: err,
			List: []driver.ClaimInfo{{Ticket: 1, Weight: 1, Holds: true, Record: "a"}}}
	}
	stale := func(id string, ticket int64) *Call {
		c := verb("enter", id, driver.ErrGone)
		c.Claim.Ticket = ticket
		return c
	}
	keeping := verb("leave", "a", unknown)
	keeping.Keep, keeping.Claim.Ticket = time.Minute, 1
	gone := verb("leave", "a", driver.ErrGone)
	gone.Keep, gone.Claim.Ticket = time.Minute, 1
	late := func(left bool) *Call {
		return list(driver.ClaimInfo{Ticket: 2, Weight: 1, Holds: true, Left: left, Record: "a"})
	}
	tests := []struct {
		name  string
		calls []*Call
		wrong int // the call whose answer cannot be; -1 if there is none
	}{
		{"nothing", nil, -1},
		{"one after the other", []*Call{enter("a", 1, true, 0), enter("b", 2, false, 1), verb("leave", "a", nil),
			enter("b", 2, true, 0)}, -1},
		{"both hold", []*Call{enter("a", 1, true, 0), enter("b", 2, true, 0)}, 1},
		{"both hold, one behind the other", []*Call{enter("a", 1, true, 0), enter("b", 2, true, 1)}, 1},
		{"waits for nobody", []*Call{enter("a", 1, false, 0)}, 0},
		{"a ticket twice", []*Call{enter("a", 1, true, 0), verb("leave", "a", nil), enter("b", 1, true, 0)}, 2},
		{"another ticket", []*Call{enter("a", 1, true, 0), enter("a", 2, true, 0)}, 1},
		{"gone by itself", []*Call{enter("a", 1, true, 0), verb("renew", "a", driver.ErrGone)}, 1},
		{"an enter of unknown outcome was applied, and its driver took the claim out", []*Call{verb("enter", "a", unknown),
			enter("b", 2, false, 1), verb("leave", "a", driver.ErrGone), enter("b", 2, true, 0)}, -1},
		{"an enter of unknown outcome was applied, and stays", []*Call{verb("enter", "a", unknown),
			enter("b", 2, false, 1), verb("leave", "a", driver.ErrGone), enter("b", 2, false, 1)}, 3},
		{"left twice", []*Call{enter("a", 1, true, 0), verb("leave", "a", nil), verb("leave", "a", nil)}, 2},
		{"a leave of unknown outcome was applied", []*Call{enter("a", 1, true, 0), verb("leave", "a", unknown),
			enter("b", 2, true, 0), verb("renew", "a", driver.ErrGone)}, -1},
		{"a leave of unknown outcome was applied, and comes again", []*Call{enter("a", 1, true, 0), verb("leave", "a", unknown),
			list(), verb("leave", "a", nil)}, -1},
		{"a leave of unknown outcome was not applied yet", []*Call{enter("a", 1, true, 0), verb("leave", "a", unknown),
			verb("renew", "a", nil), enter("b", 2, true, 0)}, -1},
		{"a leave of unknown outcome was applied, and was not", []*Call{enter("a", 1, true, 0), verb("leave", "a", unknown),
			enter("b", 2, true, 0), verb("renew", "a", nil)}, 3},
		{"an enter of unknown outcome was applied", []*Call{verb("enter", "a", unknown), enter("b", 2, false, 1)}, -1},
		{"an enter of unknown outcome was applied twice, with a leave between", []*Call{verb("enter", "a", unknown),
			verb("leave", "a", nil), enter("b", 2, false, 1)}, 2},
		{"an enter is late, and its claim leaves again", []*Call{verb("enter", "a", unknown), enter("a", 1, true, 0),
			verb("leave", "a", nil), enter("b", 3, false, 1), verb("leave", "a", nil), enter("b", 3, true, 0)}, -1},
		{"an enter is late, its claim was removed meanwhile, and the ticket from before is gone", []*Call{verb("enter", "a", unknown),
			enter("a", 1, true, 0), removed(1, nil), enter("b", 3, false, 1), stale("a", 1), enter("b", 3, true, 0)}, -1},
		{"the same, and what came late stays", []*Call{verb("enter", "a", unknown), enter("a", 1, true, 0), removed(1, nil),
			enter("b", 3, false, 1), stale("a", 1), enter("b", 3, false, 1)}, 5},
		{"what came late is kept by a leave of unknown outcome, and the next leave finds it gone", []*Call{verb("enter", "a", unknown),
			enter("a", 1, true, 0), removed(1, nil), late(false), keeping, gone, late(true)}, -1},
		{"the same, and it is not kept", []*Call{verb("enter", "a", unknown), enter("a", 1, true, 0), removed(1, nil), late(false),
			keeping, gone, late(false)}, 6},
		{"what came late is taken out by a leave of unknown outcome", []*Call{verb("enter", "a", unknown), enter("a", 1, true, 0),
			removed(1, nil), late(false), keeping, gone, list()}, -1},
		{"the ticket of a claim that stands is gone", []*Call{verb("enter", "a", unknown), enter("a", 1, true, 0), stale("a", 1),
			enter("b", 2, false, 1)}, 2},
		{"the ticket of a claim that stands is gone, and no enter is late", []*Call{enter("a", 1, true, 0), stale("a", 1)}, 1},
		{"an enter that was refused changes nothing", []*Call{verb("enter", "a", driver.ErrUnsupported),
			enter("b", 2, false, 1)}, 1},
		{"a try that was refused by nobody", []*Call{try("a", 0)}, 0},
		{"a try that was refused by one who leaves meanwhile", []*Call{enter("a", 1, true, 0),
			lasting(verb("leave", "a", nil), 1, 2), try("b", 0)}, -1},
		{"two at once, in either order", []*Call{lasting(enter("a", 2, false, 1), 0, 1), enter("b", 1, true, 0)}, -1},
		{"two at once, and both wait", []*Call{lasting(enter("a", 2, false, 1), 0, 1), enter("b", 1, false, 1)}, 1},
		{"let in, and looked up when the other had left", []*Call{enter("a", 1, true, 0),
			lasting(verb("leave", "a", nil), 1, 2), lasting(enter("b", 2, true, 0), 1, 2)}, -1},
		{"woken", []*Call{enter("a", 1, true, 0), enter("b", 2, false, 1), verb("leave", "a", nil),
			{Verb: "await", Claim: claim("b"), Place: driver.Place{Holds: true}}}, -1},
		{"woken too early", []*Call{enter("a", 1, true, 0), enter("b", 2, false, 1),
			{Verb: "await", Claim: claim("b"), Place: driver.Place{Holds: true}}}, 2},
		{"told of its turn before it asked, and by then its lease has run out", []*Call{enter("a", 1, true, 0), enter("b", 2, false, 1),
			verb("leave", "a", nil), verb("expire", "b", nil), enter("c", 3, true, 0),
			{Verb: "await", Claim: claim("b"), Place: driver.Place{Holds: true}}}, -1},
		{"told of a turn that was another's", []*Call{enter("a", 1, true, 0), enter("b", 2, false, 1), enter("b", 2, false, 1),
			{Verb: "await", Claim: claim("b"), Place: driver.Place{Holds: true}}, verb("leave", "a", nil)}, 3},
		{"listed", []*Call{enter("a", 1, true, 0), list(driver.ClaimInfo{Ticket: 1, Weight: 1, Holds: true, Record: "a"})}, -1},
		{"not listed", []*Call{enter("a", 1, true, 0), list()}, 1},
		{"listed with the ticket of an enter that was not heard of", []*Call{verb("enter", "a", unknown),
			list(driver.ClaimInfo{Ticket: 7, Weight: 1, Holds: true, Record: "a"}), enter("b", 5, false, 1)}, 2},
		{"listed when a lease was over that kept somebody waiting a moment before", []*Call{enter("a", 1, true, 0), leaving, kept,
			lasting(enter("b", 2, false, 1), 3, 5), lasting(list(), 4, 4), enter("b", 2, true, 0)}, -1},
		{"listed without a claim that came before", []*Call{enter("a", 1, true, 0), leaving, kept,
			enter("b", 2, false, 1), list(), enter("b", 2, true, 0)}, 4},
		{"listed when a lease was over, without a claim that waited for that meanwhile", []*Call{enter("a", 1, true, 0), leaving,
			lasting(list(), 2, 5), enter("b", 2, false, 1), over(4), lasting(enter("b", 2, true, 0), 6, 6)}, -1},
		{"listed before a lease was over, without the claim that waits for that", []*Call{enter("a", 1, true, 0), leaving,
			lasting(list(), 2, 3), lasting(enter("b", 2, false, 1), 4, 4), over(5)}, 2},
		{"nobody was there to be removed when a lease was over that kept somebody waiting a moment before", []*Call{
			enter("a", 1, true, 0), leaving, kept, lasting(enter("b", 2, false, 1), 3, 5), lasting(removed(0, driver.ErrGone), 4, 4),
			enter("b", 2, true, 0)}, -1},
		{"nobody is there to be removed, and somebody waits", []*Call{enter("a", 1, true, 0), leaving, kept,
			enter("b", 2, false, 1), removed(0, driver.ErrGone)}, 4},
		{"told of one ahead whose lease was over when it was let in", []*Call{enter("a", 1, true, 0), verb("expire", "a", nil),
			lasting(enter("b", 2, false, 1), 2, 5), verb("renew", "a", driver.ErrGone), list(), lasting(enter("b", 2, true, 0), 6, 6)}, -1},
		{"told of one ahead who was gone before", []*Call{enter("a", 1, true, 0), verb("expire", "a", nil),
			verb("renew", "a", driver.ErrGone), enter("b", 2, false, 1)}, 3},
		{"told of one ahead whose lease was over when another came", []*Call{enter("a", 1, true, 0), verb("expire", "a", nil),
			lasting(enter("b", 3, false, 2), 2, 5), verb("renew", "a", driver.ErrGone), enter("c", 2, true, 0)}, 2},
		{"another capacity", []*Call{enter("a", 1, true, 0), {Verb: "enter",
			Claim: driver.Claim{ID: "b", Weight: 1, Capacity: 2}, Err: &driver.CapacityError{Have: 1, Want: 2}}}, -1},
		{"another capacity of nobody", []*Call{{Verb: "enter",
			Claim: driver.Claim{ID: "b", Weight: 1, Capacity: 2}, Err: &driver.CapacityError{Have: 1, Want: 2}}}, 0},
		{"a lease ran out", []*Call{enter("a", 1, true, 0), verb("expire", "a", nil), enter("b", 2, true, 0),
			verb("renew", "a", driver.ErrGone)}, -1},
		{"kept, and the time is over", []*Call{enter("a", 1, true, 0), leaving, kept, enter("b", 2, true, 0)}, -1},
		{"kept, and the next one holds", []*Call{enter("a", 1, true, 0), leaving, enter("b", 2, true, 0)}, 2},
		{"kept, and renewed", []*Call{enter("a", 1, true, 0), leaving, verb("renew", "a", nil)}, 2},
		{"removed by hand", []*Call{enter("a", 1, true, 0), removed(1, nil), enter("b", 2, true, 0)}, -1},
		{"removed by hand, and stays", []*Call{enter("a", 1, true, 0), removed(1, nil), verb("renew", "a", nil)}, 2},
		{"removed by hand, or not", []*Call{enter("a", 1, true, 0), removed(1, unknown), enter("b", 2, true, 0)}, -1},
		{"not there to be removed", []*Call{enter("a", 1, true, 0), removed(1, driver.ErrGone)}, 1},
		{"a lease ran out, and is renewed", []*Call{enter("a", 1, true, 0), verb("expire", "a", nil), enter("b", 2, true, 0),
			verb("renew", "a", nil)}, 3},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for i, c := range test.calls {
				if c.Ended == 0 {
					lasting(c, i, i)
				}
			}
			got, _ := explain(test.calls)
			want := (*Call)(nil)
			if test.wrong >= 0 {
				want = test.calls[test.wrong]
			}
			if got != want {
				t.Errorf("the answer that cannot be is %v; want %v", got, want)
			}
		})
	}
}
