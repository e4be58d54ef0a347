package driver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

func TestHolding(t *testing.T) {
	tests := []struct {
		capacity int64
		weights  []int64
		want     int
	}{
		{All, nil, 0},
		{All, []int64{All}, 1},
		{All, []int64{All, All}, 1},
		{All, []int64{1, 1, 1}, 3},
		{All, []int64{1, All, 1}, 1},
		{All, []int64{All, 1}, 1},
		{All, []int64{All - 1, 1, 1}, 2},
		{1, []int64{1, 1}, 1},
		{3, []int64{2, 1, 1}, 2},
		{3, []int64{2, 2, 1}, 1},
		{3, []int64{4, 1}, 0},
		{2, []int64{1, 1, 1}, 2},
	}
	for _, test := range tests {
		if got := Holding(test.capacity, test.weights); got != test.want {
			t.Errorf("Holding(%d, %d) = %d, want %d", test.capacity, test.weights, got, test.want)
		}
		q := Queue{Capacity: test.capacity}
		for _, w := range test.weights {
			q.Entries = append(q.Entries, Entry{Weight: w})
		}
		if got := q.Holding(); got != test.want {
			t.Errorf("a queue of %d with weights %d: %d hold, want %d", test.capacity, test.weights, got, test.want)
		}
	}
}

// A history is a queue, and the claims of the random operations.
type history struct {
	queue  Queue
	now    int64
	claims []Claim
	gone   map[string]bool // left, broken or run out after the client had learned the ticket
}

// operate does one operation, chosen by four bytes.
func (h *history) operate(a, b, c, d byte) error {
	h.now += int64(d&3) * int64(d>>5)
	if len(h.claims) == 0 || a&7 == 0 {
		capacity := []int64{1, 2, 3, All, All, All}[int(b)%6]
		h.claims = append(h.claims, Claim{
			ID: fmt.Sprint(len(h.claims)), Weight: []int64{1, min(2, capacity), capacity}[int(c)%3], Capacity: capacity,
			TTL: time.Duration(1+c>>5) * time.Microsecond, Wait: time.Duration(1+b>>6) * time.Microsecond,
			Delay: time.Duration(b>>3&3) * time.Microsecond,
			Owner: []string{"", "", "x", "y"}[c>>3&3], Reclaim: d&4 != 0, Client: []string{"p", "q"}[d>>1&1],
		})
	}
	recent := min(len(h.claims), 6)
	claim := &h.claims[len(h.claims)-1-int(b)%recent]
	v := verb(int(a>>3) % int(verbs))
	if h.gone[claim.ID] && (v == enters || v == tries) {
		v = enterAgain
	}
	if claim.Ticket == 0 && v == enterAgain {
		v = enters
	}
	if a&64 != 0 {
		claim.TTL, claim.Wait = time.Microsecond, time.Microsecond // shorter than what may be left
	}
	stamp := h.now * int64(d>>4&1) // some clocks are behind the tickets
	p, err := apply(&h.queue, h.now, stamp, v, *claim)
	if err == nil && p.Ticket != 0 && v != breaks && d&8 != 0 {
		claim.Ticket = p.Ticket
	}
	for _, known := range h.claims {
		i := h.queue.find(known.ID)
		if known.Ticket != 0 && i < 0 {
			h.gone[known.ID] = true
		} else if h.gone[known.ID] {
			return fmt.Errorf("I5: %s came back: %+v", known.ID, h.queue.Entries[i])
		}
	}
	return err
}

func TestRandomHistories(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		h := history{now: 1, gone: map[string]bool{}}
		for i := range 200 {
			n := random.Uint32()
			if err := h.operate(byte(n), byte(n>>8), byte(n>>16), byte(n>>24)); err != nil {
				t.Fatalf("seed %d, operation %d: %v", seed, i, err)
			}
		}
	}
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte{0, 3, 0, 8, 0, 3, 2, 8, 32, 1, 0, 0})
	f.Add([]byte{0, 1, 1, 255, 8, 0, 0, 255, 16, 0, 0, 255, 24, 0, 0, 255, 40, 0, 0, 255, 48, 0, 0, 255})
	f.Fuzz(func(t *testing.T, ops []byte) {
		h := history{now: 1, gone: map[string]bool{}}
		for ; len(ops) >= 4; ops = ops[4:] {
			if err := h.operate(ops[0], ops[1], ops[2], ops[3]); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func exclusive(id string) *Claim {
	return &Claim{Name: "a", ID: id, Weight: All, Capacity: All, TTL: 10 * time.Microsecond, Wait: 5 * time.Microsecond}
}

func mustEnter(t *testing.T, q *Queue, now int64, c *Claim) Place {
	t.Helper()
	p, err := q.Enter(now, 0, c)
	if err != nil {
		t.Fatalf("enter %s at %d: %v", c.ID, now, err)
	}
	return p
}

// TestReclaimThatIsRefused checks that a refused claim does not remove the earlier run's claim: a refusal means that nothing
// was applied.
func TestReclaimThatIsRefused(t *testing.T) {
	job := func(id string, weight, capacity int64) *Claim {
		c := exclusive(id)
		c.Weight, c.Capacity, c.Client, c.Owner, c.Reclaim = weight, capacity, id, "job", true
		return c
	}
	t.Run("capacity", func(t *testing.T) {
		var q Queue
		mustEnter(t, &q, 0, job("earlier", 1, 3))
		other := exclusive("other")
		other.Weight, other.Capacity = 1, 3
		mustEnter(t, &q, 0, other)
		if _, err := q.Enter(0, 0, job("later", 1, 2)); err == nil {
			t.Error("enter with another capacity = nil, want a CapacityError")
		}
		if _, err := q.Look(0, exclusive("earlier")); err != nil {
			t.Errorf("look for the earlier claim = %v, want nil", err)
		}
	})
	t.Run("try", func(t *testing.T) {
		var q Queue
		mustEnter(t, &q, 0, exclusive("other"))
		mustEnter(t, &q, 0, job("earlier", All, All))
		later := job("later", All, All)
		later.Try = true
		if p := mustEnter(t, &q, 0, later); p.Ticket != 0 || p.Ahead != 2 {
			t.Errorf("try = %+v, want ticket 0 and 2 ahead", p)
		}
		if _, err := q.Look(0, exclusive("earlier")); err != nil {
			t.Errorf("look for the earlier claim = %v, want nil", err)
		}
	})
}

func TestLookStartsNoLease(t *testing.T) {
	var q Queue
	mustEnter(t, &q, 0, exclusive("1"))
	want := mustEnter(t, &q, 0, exclusive("2"))
	got, err := q.Look(4, exclusive("2"))
	if err != nil || got.Ticket != want.Ticket || got.Ahead != 1 || got.TTL != 0 || got.Retry != 6*time.Microsecond {
		t.Errorf("look = %+v, %v; want ticket %d, 1 ahead, no lease, and to ask again in 6µs", got, err, want.Ticket)
	}
	if _, err := q.Look(5, exclusive("2")); !errors.Is(err, ErrGone) {
		t.Errorf("look at the end of the lease = %v, want ErrGone", err)
	}
}

// TestExpiryComesFirst checks that no operation counts an expired claim.
func TestExpiryComesFirst(t *testing.T) {
	tests := []struct {
		name string
		do   func(q *Queue) error
		want error
	}{
		{"enter again", func(q *Queue) error { c := exclusive("1"); c.Ticket = 1; _, err := q.Enter(20, 0, c); return err }, ErrGone},
		{"look", func(q *Queue) error { _, err := q.Look(20, exclusive("1")); return err }, ErrGone},
		{"renew", func(q *Queue) error { _, err := q.Renew(20, exclusive("1")); return err }, ErrGone},
		{"leave", func(q *Queue) error { return q.Leave(20, &Release{Claim: exclusive("1")}) }, ErrGone},
		{"break", func(q *Queue) error { _, err := q.Break(20, 0); return err }, ErrGone},
		{"another capacity", func(q *Queue) error {
			c := exclusive("2")
			c.Capacity, c.Weight = 3, 3
			_, err := q.Enter(20, 0, c)
			return err
		}, nil},
		{"enter", func(q *Queue) error {
			if p, err := q.Enter(20, 0, exclusive("2")); !p.Holds {
				return errors.Join(errors.New("does not hold"), err)
			}
			return nil
		}, nil},
		{"enter anew", func(q *Queue) error {
			if p, err := q.Enter(20, 0, exclusive("1")); p.Ticket != 2 {
				return errors.Join(errors.New("has its former ticket"), err)
			}
			return nil
		}, nil},
		{"list", func(q *Queue) error {
			if list := q.List(20); len(list) != 0 || len(q.Entries) != 1 {
				return errors.New("shows it, or changes the queue")
			}
			return nil
		}, nil},
	}
	for _, test := range tests {
		var q Queue
		mustEnter(t, &q, 0, exclusive("1"))
		if err := test.do(&q); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
}

func TestNext(t *testing.T) {
	var q Queue
	if at, ok := q.Next(); ok {
		t.Errorf("next of an empty queue = %d, true", at)
	}
	holder := exclusive("1")
	holder.TTL, holder.Delay = 2*time.Microsecond, 2*time.Microsecond
	mustEnter(t, &q, 0, holder)
	mustEnter(t, &q, 1, exclusive("2"))
	if at, ok := q.Next(); at != 4 || !ok {
		t.Errorf("next = %d, %v; want 4, the end of the lock-delay", at, ok)
	}
}

// TestRemainingIsNeverZero checks that the rest of a lease that has just run out is not 0, which would mean unknown.
func TestRemainingIsNeverZero(t *testing.T) {
	var q Queue
	c := exclusive("1")
	c.Delay = 10 * time.Microsecond
	mustEnter(t, &q, 0, c)
	ends := q.Entries[0].Ends
	for now, want := range map[int64]time.Duration{ends - 1: time.Microsecond, ends: -time.Microsecond, ends + 1: -time.Microsecond} {
		if list := q.List(now); len(list) != 1 || list[0].Remaining != want {
			t.Errorf("at %d: %+v; want %v left", now-ends, list, want)
		}
	}
}

func TestBlockerInLockDelay(t *testing.T) {
	var q Queue
	holder := exclusive("1")
	holder.Delay, holder.Record = 10*time.Microsecond, "r"
	ticket := mustEnter(t, &q, 0, holder).Ticket
	p := mustEnter(t, &q, 12, exclusive("2"))
	want := ClaimInfo{Ticket: ticket, Weight: All, Holds: true, Since: 12 * time.Microsecond, Remaining: -2 * time.Microsecond, Record: "r"}
	if p.Blocker != want || p.Retry != 8*time.Microsecond {
		t.Errorf("place = %+v, want to ask again in 8µs because of %+v", p, want)
	}
}

// TestListWithoutTheHolder checks that a listing between the end of a lease and the next change shows the next holder.
func TestListWithoutTheHolder(t *testing.T) {
	var q Queue
	holder := exclusive("1")
	holder.TTL = 2 * time.Microsecond
	mustEnter(t, &q, 0, holder)
	mustEnter(t, &q, 0, exclusive("2"))
	mustEnter(t, &q, 0, exclusive("3"))
	if list := q.List(2); len(list) != 2 || !list[0].Holds || list[1].Holds {
		t.Errorf("list = %+v; want the second claim to hold, and the third to wait", list)
	}
}
