//go:build unix

package main

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/stilelock/stile/internal/history"
)

// together returns how many holds began while another one lasted, and the longest time that such an earlier hold went on.
func together(holds []*history.Hold) (n int, longest time.Duration) {
	list := slices.SortedFunc(slices.Values(holds), func(a, b *history.Hold) int { return cmp.Compare(a.Begin, b.Begin) })
	for i, h := range list {
		inside := false
		for _, o := range list[:i] {
			if o.Name == h.Name && o.End >= h.Begin {
				inside = true
				longest = max(longest, o.End-h.Begin)
			}
		}
		if inside {
			n++
		}
	}
	return n, longest
}

// idle returns the times in which somebody waited, nobody held, and there was no fault.
func idle(waits, holds, faults []span) (list []span) {
	for _, free := range without(joined(waits), joined(holds)) {
		list = append(list, without([]span{free}, joined(faults))...)
	}
	return list
}

// joined returns the same times in order, with touching spans merged.
func joined(spans []span) (list []span) {
	spans = slices.SortedFunc(slices.Values(spans), func(a, b span) int { return cmp.Compare(a.begin, b.begin) })
	for _, s := range spans {
		if n := len(list); n > 0 && s.begin <= list[n-1].end {
			list[n-1].end = max(list[n-1].end, s.end)
		} else {
			list = append(list, s)
		}
	}
	return list
}

// without returns the times of the first spans that are not in the others. Both are joined.
func without(spans, others []span) (list []span) {
	for _, s := range spans {
		for _, o := range others {
			if o.end <= s.begin || s.end <= o.begin {
				continue
			}
			if s.begin < o.begin {
				list = append(list, span{s.begin, o.begin})
			}
			s.begin = o.end
			if s.begin >= s.end {
				break
			}
		}
		if s.begin < s.end {
			list = append(list, s)
		}
	}
	return list
}

// slept returns how many of the idle times are longer than a bound, and the longest of all.
func slept(list []span, bound time.Duration) (n int, longest time.Duration) {
	for _, s := range list {
		longest = max(longest, s.end-s.begin)
		if s.end-s.begin > bound {
			n++
		}
	}
	return n, longest
}

// waitsOf returns the waits for a name, up to a time.
func waitsOf(all []*process, name string, until time.Duration) (list []span) {
	for _, p := range all {
		p.mu.Lock()
		for _, a := range p.asks {
			if a.name != name {
				continue
			}
			end := a.end
			if end == 0 {
				end = cmp.Or(p.died, time.Duration(math.MaxInt64))
			}
			if end = min(end, until); a.begin < end {
				list = append(list, span{a.begin, end})
			}
		}
		p.mu.Unlock()
	}
	return list
}

// holdsOf returns the holds of a name, each until its end was done.
func holdsOf(grants []*grant, name string) (list []span) {
	for _, g := range grants {
		if g.Name == name {
			list = append(list, span{g.Begin, max(g.End, g.left, g.done)})
		}
	}
	return list
}

// served returns how many waiters of the processes have held anything since a time.
func served(workers []*process, since time.Duration) (n int) {
	for _, p := range workers {
		var again [waiters]bool
		p.mu.Lock()
		for id, g := range p.holds {
			if g.Begin > since {
				again[id%waiters] = true
			}
		}
		p.mu.Unlock()
		for _, held := range again {
			if held {
				n++
			}
		}
	}
	return n
}
