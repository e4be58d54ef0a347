package etcd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
)

// In any order of events: a claim that holds never waits again, a claim that leaves or has ended never stands again, every
// claim can reach each final state, and a final state is left no more.
func TestStates(t *testing.T) {
	t.Parallel()
	ends := []state{claimKept, claimGone, claimLost}
	for from := claimAsking; from <= claimLost; from++ {
		seen := map[state]bool{}
		reach(from, seen)
		over := slices.Contains(ends, from)
		for _, end := range ends {
			if !over && !seen[end] {
				t.Errorf("from state %d nothing leads to %d", from, end)
			}
		}
		switch {
		case over && len(seen) > 0:
			t.Errorf("from the end %d there are ways to %v", from, seen)
		case from >= claimHolding && seen[claimWaiting], from >= claimHolding && seen[claimHolding]:
			t.Errorf("from state %d there are ways to %v; want none back to the queue", from, seen)
		case seen[claimAsking]:
			t.Errorf("from state %d a claim asks again", from)
		}
	}
	for s := claimAsking; s <= claimLost; s++ {
		k := &localClaim{state: s}
		if over := slices.Contains(ends, s); over != k.ended() || over && (k.entered() || k.placed() || k.alarms()) {
			t.Errorf("a claim in state %d, an end, stands", s)
		}
		if k.placed() && !k.entered() || k.alarms() && !k.entered() {
			t.Errorf("a claim in state %d is placed or alarms, and is not known to have entered", s)
		}
	}
}

// reach adds the states that a claim can reach.
func reach(from state, seen map[state]bool) {
	for next := claimAsking; next <= claimLost; next++ {
		k := &localClaim{state: from}
		if moved := k.becomeLocked(next); moved && !seen[next] {
			seen[next] = true
			reach(next, seen)
		}
	}
}

// A world is a driver without a server. It has one claim, with overlapping calls about it, and a next claim later.
type world struct {
	d        *Driver
	k, next  *localClaim
	open     []func() // end the requests about the claim's key: their outcomes are then known
	long     *lease   // a request of unknown outcome may have made it the key's lease
	fresh    *lease   // a request of unknown outcome may have made it the claim's lease
	revision int64    // the key's latest
}

func newWorld() *world {
	w := &world{d: newDriver(""), revision: 10}
	w.d.life.End() // the pool notes revocations, and sends none
	c := &driver.Claim{Name: "n", ID: "a"}
	w.k = w.d.claims.remember(newLocalClaim(c, "n/1", &lease{id: 1}))
	return w
}

// ask begins a request about the claim, as change does.
func (w *world) ask() {
	if answered, err := w.d.claims.asks(w.k); err == nil {
		w.open = append(w.open, answered)
	}
}

// move attaches the key to a longer lease. Without an answer, the outcome stays unknown.
func (w *world) move(answer bool) {
	if w.k.state != claimHolding || w.k.on != w.k.life || w.long != nil {
		return
	}
	long := &lease{id: 2}
	answered, err := w.d.claims.asks(w.k, long)
	switch {
	case err != nil:
		w.d.pool.spare(long)
	case answer:
		answered()
		w.revision++
		w.k.on, w.k.modified = long, w.revision
	default:
		w.d.pool.spare(long)
		w.long = long
	}
}

// replace gives the claim and its key a lease of a new term. Without an answer, the outcome stays unknown.
func (w *world) replace(answer bool) {
	if !w.k.entered() || w.fresh != nil {
		return
	}
	fresh := &lease{id: 3}
	answered, err := w.d.claims.asks(w.k, fresh)
	switch {
	case err != nil:
		w.d.pool.spare(fresh)
	case answer:
		answered()
		w.revision++
		w.d.claims.hang(w.k, fresh, fresh, w.revision)
	default:
		w.d.pool.spare(fresh)
		w.fresh = fresh
	}
}

var events = []struct {
	name string
	do   func(w *world)
}{
	{"ask", (*world).ask},
	{"answer", func(w *world) {
		if len(w.open) > 0 {
			w.open[0]()
			w.open = w.open[1:]
		}
	}},
	{"found", func(w *world) {
		w.d.claims.sight(w.k, &entry{
			key: "n/1", created: 10, modified: w.revision, lease: w.k.on.id, value: value{Lease: hexOf(w.k.life.id)},
		})
	}},
	{"waits", func(w *world) { w.placed(false) }},
	{"holds", func(w *world) { w.placed(true) }},
	{"moved", func(w *world) { w.move(true) }},
	{"moved?", func(w *world) { w.move(false) }},
	{"replaced", func(w *world) { w.replace(true) }},
	{"replaced?", func(w *world) { w.replace(false) }},
	{"deleted", func(w *world) { w.k.knows = hearing; w.k.hearLocked(event{"n/1", 99, 0}) }},
	{"leaves", func(w *world) { w.d.claims.leaves(w.k) }},
	{"kept", func(w *world) { w.d.claims.end(w.k, claimKept) }},
	{"gone", func(w *world) { w.d.claims.end(w.k, claimGone) }},
	{"lost", func(w *world) { w.d.claims.end(w.k, claimLost) }},
	{"next", func(w *world) {
		if l := w.take(); l != nil && w.next == nil {
			w.next = newLocalClaim(&driver.Claim{Name: "n", ID: "b"}, "n/"+hexOf(l.id), l)
		}
	}},
}

func (w *world) placed(holds bool) {
	if !w.k.entered() {
		return
	}
	w.d.watches.noteQueue(&driver.Claim{Weight: 1, Capacity: 1}, w.k, queue{{key: "n/1", created: 10}}, 0, true, 10, holds)
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if w.k.watching != nil { // no clock runs here
		w.k.watching.Stop()
		w.k.watching = nil
	}
}

// take returns a lease from the pool, or nil.
func (w *world) take() *lease {
	for _, list := range w.d.pool.idle {
		for _, l := range list {
			if l.become(leaseServing) {
				return l
			}
		}
	}
	return nil
}

// wrong returns the mistake in a world, or "".
func (w *world) wrong() string {
	home, life, on, over := w.k.home, w.k.life, w.k.on, w.k.ended()
	switch {
	case over == (w.d.claims.known["a"] == w.k):
		return "a claim is known if, and only if, it is not over"
	case over && w.k.by != nil:
		return "a claim that is over hears of deletions"
	case !over && (life.state != leaseServing || on.state != leaseServing || home.state == leaseIdle):
		return "a claim stands whose lease serves another, or nobody"
	case w.next != nil && w.next.home == home && (len(w.open) > 0 || w.long != nil),
		w.next != nil && (w.next.home == w.long || w.next.home == w.fresh):
		return "a lease serves a second claim while a request about the first may be applied yet"
	case home.state == leaseIdle && home.open > 0,
		w.long != nil && w.long.state != leaseServing, w.fresh != nil && w.fresh.state != leaseServing:
		return "a lease is revoked or in the pool while a request about it may be applied yet"
	case w.k.state == claimLost && (life.state == leaseOver || on.state == leaseOver):
		return "what is left of a claim that was lost is revoked, and with it its lock-delay"
	case w.k.state == claimKept && (home.state == leaseIdle || life.state == leaseIdle || on.state == leaseIdle):
		return "the lease that a kept key is named for is to name another"
	}
	seen := map[*lease]bool{}
	for _, list := range w.d.pool.idle {
		for _, l := range list {
			if seen[l] {
				return "a lease is in the pool twice"
			}
			seen[l] = true
		}
	}
	return ""
}

// In all orders of up to six events, with overlapping calls, no world has a mistake. Above all, a lease serves no other
// claim while the outcome of a request about it is unknown.
func TestClaimWorlds(t *testing.T) {
	t.Parallel()
	const depth = 6
	walked := map[string]int{}
	var walk func(path []int)
	walk = func(path []int) {
		w := newWorld()
		defer w.d.pool.timer.Stop()
		for _, i := range path {
			events[i].do(w)
		}
		if wrong := w.wrong(); wrong != "" {
			var names []string
			for _, i := range path {
				names = append(names, events[i].name)
			}
			t.Fatalf("after %s: %s", strings.Join(names, ", "), wrong)
		}
		left := depth - len(path)
		if was, met := walked[w.String()]; left == 0 || met && was >= left {
			return
		}
		walked[w.String()] = left
		for i := range events {
			walk(append(slices.Clone(path), i))
		}
	}
	walk(nil)
	if len(walked) < 100 {
		t.Errorf("%d worlds were walked; want more", len(walked))
	}
}

// String returns the parts of a world that matter for its future.
func (w *world) String() string {
	home, life, on := w.k.home, w.k.life, w.k.on
	return fmt.Sprint(w.k.state, w.k.knows,
		home.state, home.open, life.state, life.open, life == home, on.state, on.open, on == life,
		len(w.open), w.long != nil, w.fresh != nil,
		w.next != nil, w.next != nil && w.next.home == home, len(w.d.pool.idle[0]))
}

// If a claim's key is not there, the claim is gone, also if the keep-alives of its leases had no answer.
func TestGoneThoughNothingIsKeptAlive(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ lives, looked, want error }{
		"gone":                {nil, driver.ErrGone, driver.ErrGone},
		"gone, and not heard": {errSilent, driver.ErrGone, driver.ErrGone},
		"not heard":           {errSilent, nil, errSilent},
		"not looked":          {nil, errSilent, errSilent},
		"its lease is over":   {driver.ErrSession, driver.ErrGone, driver.ErrSession},
	} {
		w := newWorld()
		defer w.d.pool.timer.Stop()
		w.d.claims.sight(w.k, &entry{key: "n/1", created: 10, modified: 10, lease: 1})
		r := &renewal{
			c: &driver.Claim{Name: "n", ID: "a"}, k: w.k, up: &upkeep{life: w.k.life, on: w.k.on},
			leaseErr: test.lives, keyErr: test.looked,
		}
		w.d.sustainAll(t.Context(), []*renewal{r})
		err := w.d.renewed(t.Context(), r)
		if !errors.Is(err, test.want) || w.k.ended() != errors.Is(test.want, driver.ErrGone) {
			t.Errorf("%s: renewal = %v, over: %v; want %v", name, err, w.k.ended(), test.want)
		}
	}
}
