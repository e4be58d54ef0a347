package etcd

import (
	"maps"
	"slices"
	"testing"

	"github.com/stilelock/stile/driver"
)

// newSmall returns a world in its first state.
func newSmall(change func(m *small), wants ...*wish) *small {
	m := &small{term: 1, values: map[string]value{}, clients: make([]person, len(wants))}
	if change != nil {
		change(m)
	}
	for i, w := range wants {
		p := &m.clients[i]
		p.want, p.me, p.term = w, i, m.term
		if w.theirs {
			p.phase = atTheirs
			continue
		}
		m.begin(i)
		if w.late {
			m.late = append(m.late, request{i, *joins(&p.seat, m.read(""), nil).txn})
			p.open = append(p.open, p.has.life.id)
		}
		if w.gone && w.late {
			p.phase = atEnd
		} else if w.gone { // a claim of an earlier run: its client has died, and its lease lives on
			m.applied(i, new(joins(&p.seat, nil, nil)))
			m.lease(p.has.life.id).ends = 1 << 10
			p.c.ID, p.phase, p.v, p.was = "gone", atEnd, nil, nil
			m.keys[0].ID = "gone"
		}
	}
	return m
}

// someWorlds returns small worlds by name. Together they use every feature of the model.
func someWorlds() map[string]func() *small {
	writer := func() *wish { return &wish{weight: driver.All} }
	reader := func() *wish { return &wish{weight: 1} }
	with := func(w *wish, change func(w *wish)) *wish { change(w); return w }
	lost := func(n int) func(m *small) { return func(m *small) { m.lost = n } }
	passes := func(lost, ticks, leaders int) func(m *small) {
		return func(m *small) { m.lost, m.ticks, m.leaders = lost, ticks, leaders }
	}
	delayed := func(w *wish) { w.delay = true }
	renews := func(w *wish) { w.renews = true }
	tries := func(w *wish) { w.try = true }
	keeps := func(w *wish) { w.keep = true }
	amends := func(w *wish) { w.amend = true }
	dead := func(w *wish) { w.job, w.gone = true, true }
	late := func(w *wish) { w.late = true }
	reclaims := func(w *wish) { w.job, w.reclaim = true, true }
	twin := func(w *wish) { w.twin = true }
	twice := func(w *wish) { w.claims = 2 }
	return map[string]func() *small{
		"two": func() *small { return newSmall(lost(1), writer(), writer()) },
		"two, one removed": func() *small {
			return newSmall(func(m *small) { m.lost, m.breaks = 1, 1 }, writer(), writer())
		},
		"two, time passes":    func() *small { return newSmall(passes(1, 1, 0), writer(), writer()) },
		"three":               func() *small { return newSmall(nil, writer(), writer(), writer()) },
		"three, lost":         func() *small { return newSmall(lost(1), writer(), writer(), writer()) },
		"one after the other": func() *small { return newSmall(lost(1), with(writer(), twice), writer()) },
		"gives up": func() *small {
			return newSmall(lost(1), writer(), with(writer(), func(w *wish) { w.gives = true }))
		},
		"gives up, again": func() *small {
			return newSmall(lost(1), with(writer(), func(w *wish) { w.gives, w.claims = true, 2 }), writer())
		},
		"readers and a writer": func() *small { return newSmall(nil, reader(), writer(), reader()) },
		"a reader, lost":       func() *small { return newSmall(lost(1), reader(), writer()) },
		"a try":                func() *small { return newSmall(lost(1), with(writer(), tries), writer()) },
		"a reader tries":       func() *small { return newSmall(lost(1), with(reader(), tries), reader(), writer()) },
		"a new leader":         func() *small { return newSmall(passes(0, 1, 1), with(writer(), renews), writer()) },
		"a new leader, lost":   func() *small { return newSmall(passes(1, 1, 1), with(writer(), renews)) },
		"lock-delay":           func() *small { return newSmall(passes(0, 1, 0), with(writer(), delayed), writer()) },
		"lock-delay, lost":     func() *small { return newSmall(passes(1, 1, 0), with(writer(), delayed), writer()) },
		"lock-delay, a new leader": func() *small {
			return newSmall(passes(1, 1, 1), with(with(writer(), delayed), renews))
		},
		"lock-delay, kept":    func() *small { return newSmall(lost(1), with(with(writer(), delayed), keeps), writer()) },
		"kept by two drivers": func() *small { return newSmall(lost(1), writer(), with(with(writer(), twin), keeps)) },
		"kept by two drivers, lost, removed": func() *small {
			return newSmall(func(m *small) { m.lost, m.breaks = 1, 1 }, writer(), with(with(writer(), twin), keeps))
		},
		"kept by two drivers, removed": func() *small {
			return newSmall(func(m *small) { m.breaks = 1 }, with(writer(), late), with(with(writer(), twin), keeps))
		},
		"amended, then kept": func() *small { return newSmall(lost(1), with(with(writer(), amends), keeps), reader()) },
		"kept":               func() *small { return newSmall(lost(1), with(writer(), keeps), writer()) },
		"kept, removed": func() *small {
			return newSmall(func(m *small) { m.breaks = 1 }, with(writer(), keeps), writer())
		},
		"amended":                func() *small { return newSmall(lost(1), with(writer(), amends), reader()) },
		"amended, among writers": func() *small { return newSmall(lost(1), with(writer(), amends), writer()) },
		"reclaims":               func() *small { return newSmall(lost(1), with(writer(), dead), with(writer(), reclaims)) },
		"reclaims beside another": func() *small {
			return newSmall(nil, with(writer(), dead), with(writer(), reclaims), writer())
		},
		"reclaims, and another comes late": func() *small {
			return newSmall(nil, with(writer(), dead), with(with(writer(), dead), late), with(writer(), reclaims))
		},
		"reclaims what is kept": func() *small {
			return newSmall(nil, with(writer(), func(w *wish) { w.job, w.keep = true, true }), with(writer(), reclaims))
		},
		"by two drivers": func() *small { return newSmall(lost(1), writer(), with(writer(), twin)) },
		"by two drivers, behind another": func() *small {
			return newSmall(nil, writer(), with(writer(), twin), writer())
		},
		"two calls, a new leader": func() *small {
			return newSmall(passes(0, 0, 1), with(writer(), func(w *wish) { w.beside = atRenew }))
		},
		"two calls, lock-delay, a new leader": func() *small {
			return newSmall(passes(0, 0, 1), with(writer(), func(w *wish) { w.delay, w.beside = true, atRenew }))
		},
		"two calls, lock-delay, kept": func() *small {
			return newSmall(lost(1), with(writer(), func(w *wish) { w.delay, w.beside = true, atStay }))
		},
		"two calls, kept, a new leader": func() *small {
			return newSmall(passes(0, 0, 1), with(writer(), func(w *wish) { w.keep, w.beside = true, atRenew }))
		},
		"two calls, leaves": func() *small {
			return newSmall(lost(1), with(writer(), func(w *wish) { w.delay, w.beside = true, atLeave }), writer())
		},
		"etcd's own":          func() *small { return newSmall(lost(1), &wish{theirs: true}, writer()) },
		"etcd's own, and two": func() *small { return newSmall(nil, &wish{theirs: true}, writer(), writer()) },
		"etcd's own, kept":    func() *small { return newSmall(nil, &wish{theirs: true}, with(writer(), keeps)) },
	}
}

// TestGoals walks every small world.
func TestGoals(t *testing.T) {
	t.Parallel()
	all, worlds := 0, someWorlds()
	for _, name := range slices.Sorted(maps.Keys(worlds)) {
		seen, wrong := worlds[name]().walk(ships())
		if all += seen; wrong != "" {
			t.Errorf("%s: after %d worlds: %s", name, seen, wrong)
		}
		t.Logf("%s: %d worlds", name, seen)
	}
	t.Logf("%d worlds", all)
}

// TestGoalsWithMistakes makes one mistake at a time in the goals, or in the rules around them. The walk finds each.
func TestGoalsWithMistakes(t *testing.T) {
	t.Parallel()
	dropping := func(in stage, is property) *plan {
		by := ships()
		by.drops = func(by stage, m *move) {
			if by == in {
				m.txn.conditions = slices.DeleteFunc(slices.Clone(m.txn.conditions), func(c condition) bool {
					return c.is == is
				})
			}
		}
		return by
	}
	standing := func(change func(s *seat, v *view, m *move)) *plan {
		by := ships()
		by.stands = func(s *seat, v *view, was *answer) move {
			m := stands(s, v, was)
			change(s, v, &m)
			return m
		}
		return by
	}
	holds := func(v *view, s *seat, m *move) {
		at := s.own(v)
		*m = move{end: endHolds, at: at, place: driver.Place{Ticket: v.q[at].created, Holds: true}}
	}
	with := func(change func(by *plan)) *plan { by := ships(); change(by); return by }
	for _, mistake := range []struct {
		what, world string
		by          *plan
	}{
		{"a claim enters a queue that is not empty any more", "two", dropping(atJoin, isNewest)},
		{"a try enters a queue that has grown", "a try", dropping(atJoin, isNewest)},
		{"a claim's key is put though it is there", "kept", dropping(atJoin, isMissing)},
		{"an earlier run is removed though it is kept", "reclaims what is kept", dropping(atJoin, isUnchanged)},
		{"a key is deleted though it is kept", "kept by two drivers", dropping(atLeave, isUnchanged)},
		{"a key is hung elsewhere though it is kept", "lock-delay, kept", dropping(atStand, isUnchanged)},
		{"a key is kept that is gone", "kept", dropping(atStay, isUnchanged)},
		{"a key is written though it is kept", "amended, then kept", dropping(atAmend, isUnchanged)},
		{"a claim of an earlier run stays ahead", "reclaims, and another comes late", dropping(atJoin, isNewest)},
		{"a late key is deleted though it is kept", "kept by two drivers, removed", with(func(by *plan) {
			by.drops = func(by stage, m *move) {
				if m.changes == takesIt && m.after == endGone {
					m.txn.conditions = nil
				}
			}
		})},
		{"a claim lives by what was read before it was kept alive", "a new leader, lost", with(func(by *plan) {
			by.blind = true
		})},
		{"a lease of unknown outcome serves the next claim", "gives up, again", with(func(by *plan) {
			by.reuses = true
		})},
		{"a keep-alive counts in any term", "a new leader", with(func(by *plan) { by.terms = true })},
		{"a claim of two drivers has two keys", "by two drivers, behind another", with(func(by *plan) {
			by.joins = func(s *seat, v *view, was *answer) move {
				if was.made(entersIt) {
					return move{end: endEntered}
				}
				return joins(s, v, was)
			}
		})},
		{"a key that is to outlive its claim does not", "lock-delay", standing(func(s *seat, v *view, m *move) {
			if m.wants == wantsLong {
				holds(v, s, m)
			}
		})},
		{"who waits holds", "readers and a writer", standing(func(s *seat, v *view, m *move) {
			if m.end == endWaits {
				holds(v, s, m)
			}
		})},
		{"who is behind etcd's own holds", "etcd's own", standing(func(s *seat, v *view, m *move) {
			if m.end == endWaits && v.q[0].foreign {
				holds(v, s, m)
			}
		})},
		{"leases in hand are for the claim as it was", "two calls, lock-delay, a new leader", with(func(by *plan) {
			by.stands = withLeasesOfBefore(stands)
		})},
		{"new leases in hand are for the claim as it was", "two calls, lock-delay, a new leader", with(func(by *plan) {
			by.lives = withLeasesOfBefore(lives)
		})},
	} {
		seen, wrong := someWorlds()[mistake.world]().walk(mistake.by)
		if wrong == "" {
			t.Errorf("nobody finds that %s (%s, %d worlds)", mistake.what, mistake.world, seen)
		}
		t.Logf("%s: %.80s, in world %d of %q", mistake.what, wrong, seen, mistake.world)
	}
}

// withLeasesOfBefore returns a wrong goal: it attaches the key to the leases in hand, although another call has changed the
// claim's leases meanwhile.
func withLeasesOfBefore(g goal) goal {
	return func(s *seat, v *view, was *answer) move {
		m := g(s, v, was)
		if m.wants != wantsNone && m.wants == s.by {
			return s.hangs(&v.q[s.own(v)], false)
		}
		return m
	}
}

// Leases in hand do not serve a claim any more after another call has changed its leases.
func TestLeasesInHandOfBefore(t *testing.T) {
	t.Parallel()
	one, two, three, four := grant{1, 1}, grant{2, 1}, grant{3, 1}, grant{4, 1}
	all := value{ID: "a", Weight: driver.All, Capacity: driver.All}
	e := entry{value: all, key: "n/1", created: 7, modified: 9, lease: 1}
	v := &view{q: queue{e}, seen: 9, term: 1}
	for _, test := range []struct {
		name      string
		goal      goal
		by, want  wants
		has, hand hold
		term      uint64
	}{
		{"longer", stands, wantsLong, wantsNone, hold{one, one}, hold{one, four}, 1},
		{"longer, and it lives by another", stands, wantsLong, wantsLong, hold{two, two}, hold{one, four}, 1},
		{"new", lives, wantsNew, wantsNone, hold{one, one}, hold{four, four}, 2},
		{"new, and it hangs on a longer one", lives, wantsNew, wantsNew, hold{one, two}, hold{four, four}, 2},
		{"new, and it hangs on no longer one", lives, wantsNew, wantsNew, hold{one, one}, hold{three, four}, 2},
		{"short", stays, wantsShort, wantsNone, hold{one, one}, hold{one, four}, 1},
		{"short, and it lives by another", stays, wantsShort, wantsShort, hold{two, two}, hold{one, four}, 1},
		{"short, and in hand is a longer one", stays, wantsLong, wantsShort, hold{one, one}, hold{one, four}, 1},
	} {
		s := &seat{
			c:   &driver.Claim{ID: "a", Weight: driver.All, Capacity: driver.All, Delay: 1},
			key: "n/1", known: true, created: 7, modified: 9,
			has: test.has, alive: test.has, hand: test.hand, by: test.by,
		}
		w := *v
		w.term = test.term
		m := test.goal(s, &w, nil)
		if m.wants != test.want || (m.txn != nil) != (test.want == wantsNone) || m.end != goesOn {
			t.Errorf("%s: %+v; want that it wants %v", test.name, m, test.want)
		}
	}
}
