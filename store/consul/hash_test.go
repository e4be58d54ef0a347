package consul

import (
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/hashtest"
)

// unhashed are the fields that the hash leaves out, each with the reason.
var unhashed = map[string]string{
	"small.made":   "worlds may differ in the names of sessions",
	"small.queues": "a cache",

	"person.want": "never changes",
	"seat.folder": "never changes",
	"seat.record": "never changes",
	"seat.key":    "follows from the number of the claim",
	"seat.text":   "follows from the number of the claim",

	"queue.folder": "never changes",
	"entry.value":  "follows from the text of the key's value",
	"entry.id":     "follows from the key",

	"op.Namespace": "is empty before the agent sends the operation",
	"op.about":     "nobody reads a late answer",

	"conflict.indexes": "no goal reads it",

	// Of its last move, a goal reads only out and exclusive.
	"move.ops": "not read", "move.end": "not read", "move.why": "not read", "move.place": "not read", "move.wait": "not read",
	"move.index": "not read", "move.spoils": "not read", "move.delayed": "not read",
}

// The hash of a world shows each of its fields.
func TestHashHasEveryField(t *testing.T) {
	t.Parallel()
	m := fullWorld()
	hash := func() string {
		h := m.hash()
		return string(h[:])
	}
	hashtest.EveryField(t, m, hash, unhashed)
}

// fullWorld returns a world in which nothing is empty. All sessions are the same, and each index is one of two.
func fullWorld() *small {
	at := func(key string) pair {
		return pair{Key: walkFolder + key, Value: []byte("{}"), Session: "s1", CreateIndex: 5, ModifyIndex: 6}
	}
	own, dead, lockKey, alone := at("c0-0"), at("c1-0"), at(lockKeyName), true
	return &small{
		keys: []pair{own}, index: 6, delayed: []string{walkLockKey}, over: []string{"s1"},
		late: [][]op{{{Verb: lock, Key: own.Key, Value: own.Value, Session: "s1", Index: 6}}},
		clients: []person{{
			seat:  seat{c: &driver.Claim{Ticket: 5}, session: "s1", heir: "s1"},
			q:     &queue{entries: []*entry{{pair: own}}, lockKey: &lockKey, dead: []*pair{&dead}},
			was:   &answer{of: move{exclusive: &alone}, bad: &conflict{about: map[part]bool{ownKey: true}, what: []string{"why"}}},
			wait:  &target{key: own.Key, index: 6},
			heirs: []string{"s1"},
		}},
	}
}
