package explore

import (
	"flag"
	"fmt"
	"strings"
	"testing"
)

// TestSameStatesDoTheSame checks that worlds with one encoding have one future: whichever of them a walk keeps, it visits
// the same states.
func TestSameStatesDoTheSame(t *testing.T) {
	for _, conf := range []Config{
		{Name: "2x1", Clients: 2, Goroutines: 1, Acts: plain, Strays: 1},
		{Name: "1x2, fault", Clients: 1, Goroutines: 2, Wants: 1, Acts: plain | Close, Faults: 1, Kinds: Requests},
		{Name: "2x1, fault", Clients: 2, Goroutines: 1, Wants: 1, Acts: Lock | GiveUp, Faults: 1, Kinds: All},
		{Name: "linger", Clients: 1, Goroutines: 2, Readers: []int{0}, Wants: 1, Linger: 20 * ms, MaxHold: 40 * ms,
			Acts: plain | Share | Close},
		{Name: "reader and writer", Clients: 1, Goroutines: 2, Readers: []int{0}, Wants: 2, Acts: plain | Share},
		{Name: "permits", Clients: 1, Goroutines: 3, Permits: true, Wants: 1, Acts: plain},
		{Name: "no queue", Clients: 2, Goroutines: 1, Acts: plain, Strays: 1, Unordered: true},
		{Name: "2x2", Clients: 2, Goroutines: 2, Acts: plain, Strays: 1},
		{Name: "two faults", Clients: 1, Goroutines: 2, Wants: 1, Acts: Lock | GiveUp, Faults: 2, Kinds: Requests,
			Strays: 1},
		{Name: "pause", Clients: 2, Goroutines: 1, Wants: 1, Acts: Lock | Close, Faults: 1, Kinds: Pause | Sleep},
		{Name: "falls silent", Clients: 1, Goroutines: 2, Wants: 2, Acts: plain, Faults: 1, Kinds: Mute, Strays: 1},
		{Name: "downgrade", Clients: 1, Goroutines: 2, Readers: []int{1}, Wants: 1, Acts: Lock | Amend, Faults: 1,
			Kinds: Requests},
		{Name: "detach", Clients: 2, Goroutines: 1, Wants: 1, Acts: Lock | Detach | Alarm},
		{Name: "pin", Clients: 1, Goroutines: 2, Wants: 2, Acts: Lock | Pin | Share},
	} {
		t.Run(conf.Name, func(t *testing.T) {
			type kept struct {
				w    *World
				next map[Hash]Event
			}
			seen := map[Hash]kept{}
			first := New(&conf)
			frontier := []*World{first}
			scratch := &World{enc: &coder{}}
			after := func(w *World) (next map[Hash]Event, worlds []*World) {
				next = map[Hash]Event{}
				for _, ev := range w.Events(nil) {
					scratch.CopyFrom(w)
					if err := scratch.Step(ev); err != nil {
						t.Fatal(err)
					}
					h := scratch.Hash()
					if _, ok := next[h]; !ok {
						to := &World{enc: first.enc}
						to.CopyFrom(scratch)
						next[h] = ev
						worlds = append(worlds, to)
					}
				}
				return next, worlds
			}
			for compared := 0; len(frontier) > 0 && len(seen) < *deep; {
				w := frontier[0]
				frontier = frontier[1:]
				h := w.Hash()
				next, worlds := after(w)
				if k, ok := seen[h]; ok {
					compared++
					for g, ev := range next {
						if _, ok := k.next[g]; !ok {
							a, b := &World{enc: &coder{}}, &World{enc: &coder{}}
							a.CopyFrom(w)
							b.CopyFrom(k.w)
							t.Errorf("one has an event of its own: %v\n%s\n%s", ev, describe(a), describe(b))
							return
						}
					}
					continue
				}
				seen[h] = kept{w, next}
				frontier = append(frontier, worlds...)
			}
		})
	}
}

var deep = flag.Int("deep", 3000, "how many states are compared")

func describe(w *World) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%v %+v\n", w.now, w.store)
	w.hashed, w.parts = false, [mostClients]part{}
	w.Hash()
	x := &w.enc.x
	for i := range w.clients {
		x.Buf = x.Buf[:0]
		w.encodeClient(i)
		fmt.Fprintf(&s, "  %v\n  %+v\n  %+v\n", x.Buf, *w.clients[i].e, w.clients[i])
	}
	return s.String()
}
