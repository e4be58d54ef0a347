package driver

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"
)

// A world is a queue and the claims that may still enter it. The test looks at every world that a few claims can make.
type world struct {
	now     int64
	queue   Queue
	fresh   []int64 // weights of the claims that have not entered, rising
	entered int     // how many have entered, so that each gets an id of its own
	gone    *Claim  // one that left or expired, if any; all of them get the same answers
}

const (
	worldTTL   = 3 * time.Microsecond
	worldWait  = 2 * time.Microsecond
	worldDelay = 1 * time.Microsecond
)

func (w *world) claim(id string, weight, capacity, ticket int64) Claim {
	return Claim{ID: id, Weight: weight, Capacity: capacity, Ticket: ticket, TTL: worldTTL, Wait: worldWait, Delay: worldDelay}
}

// key is the same for worlds that are equivalent: it has no ids, and times and tickets count from now.
func (w *world) key(b []byte) []byte {
	b = b[:0]
	for _, e := range w.queue.Entries {
		b = binary.AppendVarint(b, e.Weight)
		b = append(b, byte(e.Ends-w.now+8), bit(e.Notified), bit(e.Left), bit(e.Record != ""))
	}
	b = append(b, 0xff, bit(w.gone != nil), byte(len(w.fresh)))
	for _, weight := range w.fresh {
		b = binary.AppendVarint(b, weight)
	}
	return b
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// A move is a possible operation in a world.
type move struct {
	verb  verb
	claim Claim
	fresh int // which of the fresh claims this is, or -1
	pass  int64
}

func (w *world) moves(capacity int64) []move {
	list := []move{{pass: 1, fresh: -1}}
	for i, weight := range w.fresh {
		if i > 0 && weight == w.fresh[i-1] {
			continue
		}
		c := w.claim(fmt.Sprint(w.entered), weight, capacity, 0)
		list = append(list, move{enters, c, i, 0}, move{tries, c, i, 0}, move{leaves, c, -1, 0})
	}
	known := make([]Claim, 0, 5)
	for _, e := range w.queue.Entries {
		known = append(known, w.claim(e.ID, e.Weight, capacity, e.Ticket))
	}
	if w.gone != nil {
		known = append(known, *w.gone)
	}
	for i, c := range known {
		for v := enterAgain; v < verbs; v++ {
			list = append(list, move{v, c, -1, 0})
		}
		if i < len(w.queue.Entries) {
			list = append(list, move{enters, c, -1, 0}) // after a lost reply
		}
	}
	return list
}

func (w *world) after(m move) (*world, error) {
	next := &world{now: w.now + m.pass, queue: *snapshot(&w.queue), fresh: w.fresh, entered: w.entered, gone: w.gone}
	if m.pass > 0 {
		was := snapshot(&next.queue)
		next.queue.Expire(next.now)
		next.queue.Wake(next.now)
		if err := checkExpired(was, &next.queue, next.now); err != nil {
			return nil, err
		}
	} else if _, err := apply(&next.queue, next.now, 0, m.verb, m.claim); err != nil {
		return nil, err
	}
	if m.fresh >= 0 && next.queue.find(m.claim.ID) >= 0 {
		next.entered++
		next.fresh = slices.Delete(slices.Clone(w.fresh), m.fresh, m.fresh+1)
	}
	for _, e := range w.queue.Entries {
		if next.queue.find(e.ID) < 0 {
			gone := w.claim(e.ID, e.Weight, w.queue.Capacity, e.Ticket)
			next.gone = &gone
		}
	}
	return next, nil
}

// explore visits every world that follows from claims of these weights, and that is not in seen.
func explore(t *testing.T, seen map[string]bool, capacity int64, weights []int64) {
	t.Helper()
	pending := []*world{{now: 1, fresh: weights}}
	var key []byte
	for len(pending) > 0 {
		w := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		for _, m := range w.moves(capacity) {
			next, err := w.after(m)
			if err != nil {
				t.Fatalf("capacity %d, weights %d: %v", capacity, weights, err)
			}
			if key = next.key(key); !seen[string(key)] {
				seen[string(key)] = true
				pending = append(pending, next)
			}
		}
	}
}

// TestSmallWorlds checks I1 to I6 in every world of up to four claims, whatever their weights and the capacity.
func TestSmallWorlds(t *testing.T) {
	tests := []struct {
		capacity int64
		weights  []int64
		least    int // the least number of worlds, which proves that the search was complete
	}{
		{1, []int64{1}, 100},
		{2, []int64{1, 2}, 2000},
		{3, []int64{1, 2, 3}, 10_000},
		{All, []int64{1, All}, 4000},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.capacity), func(t *testing.T) {
			t.Parallel()
			seen := map[string]bool{}
			for _, weights := range multisets(test.weights, 4) {
				explore(t, seen, test.capacity, weights)
			}
			if t.Logf("%d worlds", len(seen)); len(seen) < test.least {
				t.Errorf("%d worlds were looked at; want at least %d", len(seen), test.least)
			}
		})
	}
}

// multisets returns all rising choices of n values, with repetition.
func multisets(choices []int64, n int) [][]int64 {
	if n == 0 {
		return [][]int64{nil}
	}
	var all [][]int64
	for i, first := range choices {
		for _, rest := range multisets(choices[i:], n-1) {
			all = append(all, append([]int64{first}, rest...))
		}
	}
	return all
}
