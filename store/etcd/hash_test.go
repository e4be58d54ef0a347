package etcd

import (
	"errors"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/hashtest"
)

// unhashed are the fields that the hash leaves out, each with the reason.
var unhashed = map[string]string{
	"small.made":   "worlds may differ in the numbers of leases",
	"small.from":   "the way to a world",
	"small.did":    "the way to a world",
	"small.values": "a cache",

	"person.want": "never changes",
	"person.me":   "never changes",
	"seat.folder": "never changes",
	"seat.most":   "never changes",
	"seat.text":   "follows from the claim, and from the term of its lease",

	"value.Stile":    "never changes",
	"value.Capacity": "never changes",
	"value.Client":   "follows from the id",
	"value.Owner":    "follows from the id",
	"value.Since":    "never changes",
	"value.Record":   "changes together with the weight",

	"view.head":     "never changes",
	"txn.otherwise": "nobody reads a late answer",
	"txn.together":  "a batch applies the same transaction",

	// Of its last move, a goal reads only whether it has a transaction and a reason, its change, and after.
	"move.txn.*": "not read", "move.modified": "not read", "move.next": "not read", "move.many": "not read", "move.wants": "not read",
	"move.keeps": "not read", "move.reads": "not read", "move.end": "not read", "move.place": "not read", "move.at": "not read",
}

// The hash of a world shows each of its fields.
func TestHashHasEveryField(t *testing.T) {
	t.Parallel()
	m := fullWorld()
	hashtest.EveryField(t, m, m.hash, unhashed)
}

// fullWorld returns a world in which nothing is empty.
func fullWorld() *small {
	e := entry{value: value{ID: "a", Weight: 1, Lease: "1"}, key: "n/1", created: 5, modified: 6, lease: 1}
	t := &txn{
		conditions: []condition{{isUnchanged, "n/1", 6}},
		then:       []op{{verb: opPut, key: "n/1", text: `{"stile":1,"id":"a"}`, lease: 1}},
		otherwise:  []op{{verb: opGet}},
	}
	both := hold{grant{1, 1}, grant{1, 1}}
	call := attending{
		v:       &view{q: queue{e}, seen: 6, term: 1},
		was:     &answer{of: move{txn: t, next: &e, why: errors.New("e")}},
		pending: both,
	}
	p := person{
		want: &wish{},
		seat: seat{
			c: &driver.Claim{Ticket: 5}, key: "n/1", created: 5, modified: 6, has: both, alive: both, hand: both,
		},
		attending: call, aside: &besides{attending: call, alive: both, hand: both},
		pool: []int64{1}, open: []int64{1}, heirs: []int64{1},
	}
	m := &small{values: map[string]value{}, keys: []entry{e}, rev: 6, leases: []modelLease{{id: 1}}}
	m.late, m.ending, m.clients, m.from = []request{{0, *t}}, []int64{1}, []person{p}, &small{}
	return m
}
