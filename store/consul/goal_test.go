package consul

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
)

// newSmall returns the first world of a walk.
func newSmall(lost, ends, breaks int, wants ...*wish) *small {
	m := &small{index: 1, queues: map[string]*queue{}, lost: lost, ends: ends, breaks: breaks}
	m.clients = make([]person, len(wants))
	for i, w := range wants {
		w.claims = max(1, w.claims)
		p := &m.clients[i]
		p.want = w
		if w.theirs {
			p.phase, p.seat.session = atTheirs, m.session(w)
			continue
		}
		m.begin(i)
		if !w.gone {
			continue
		}
		_, _ = m.do(joins(&p.seat, nil, nil).ops) // the client of an earlier run, whose session lives
		p.phase, p.q = atEnd, nil
		for k := range m.keys {
			m.keys[k].Key = strings.Replace(m.keys[k].Key, walkFolder+"c", walkFolder+"gone", 1)
		}
	}
	for i := range wants {
		if m.clients[i].phase == atJoin && m.clients[i].q != nil {
			m.clients[i].q = m.look()
		}
	}
	return m
}

// someWorlds are small worlds that together use everything in the model.
func someWorlds() map[string]func() *small {
	writer := func() *wish { return &wish{weight: driver.All} }
	reader := func() *wish { return &wish{weight: 1} }
	with := func(w *wish, change func(w *wish)) *wish { change(w); return w }
	delayed := func(w *wish) { w.delay = true }
	dead := func(w *wish) { w.job, w.gone = true, true }
	reclaims := func(w *wish) { w.job, w.reclaim = true, true }
	return map[string]func() *small{
		"two":                        func() *small { return newSmall(1, 0, 0, writer(), writer()) },
		"two, one removed":           func() *small { return newSmall(1, 0, 1, writer(), writer()) },
		"two, one runs out":          func() *small { return newSmall(1, 1, 0, writer(), writer()) },
		"three":                      func() *small { return newSmall(0, 0, 0, writer(), writer(), writer()) },
		"lock-delay":                 func() *small { return newSmall(0, 1, 0, with(writer(), delayed), writer()) },
		"lock-delay, lost":           func() *small { return newSmall(1, 1, 0, with(writer(), delayed), with(writer(), delayed)) },
		"lock-delay, a reader":       func() *small { return newSmall(0, 1, 0, with(writer(), delayed), reader()) },
		"lock-delay, a reader, lost": func() *small { return newSmall(1, 1, 0, with(writer(), delayed), reader()) },
		"gives up, lost": func() *small {
			return newSmall(1, 0, 0, with(writer(), func(w *wish) { w.gives, w.claims = true, 2 }), writer())
		},
		"one after the other":  func() *small { return newSmall(1, 0, 0, with(writer(), func(w *wish) { w.claims = 2 }), writer()) },
		"readers and a writer": func() *small { return newSmall(0, 0, 0, reader(), writer(), reader()) },
		"a reader, lost":       func() *small { return newSmall(1, 0, 0, reader(), writer()) },
		"a try":                func() *small { return newSmall(1, 0, 0, with(writer(), func(w *wish) { w.try = true }), writer()) },
		"a reader tries":       func() *small { return newSmall(1, 0, 0, with(reader(), func(w *wish) { w.try = true }), writer()) },
		"a try in a lock-delay": func() *small {
			return newSmall(0, 1, 0, with(writer(), delayed), with(writer(), func(w *wish) { w.try = true }))
		},
		"kept":                    func() *small { return newSmall(1, 0, 0, with(writer(), func(w *wish) { w.keep = true }), writer()) },
		"kept, removed":           func() *small { return newSmall(0, 0, 1, with(writer(), func(w *wish) { w.keep = true }), writer()) },
		"amended":                 func() *small { return newSmall(1, 0, 0, with(writer(), func(w *wish) { w.amend = true }), reader()) },
		"amended, among writers":  func() *small { return newSmall(1, 0, 0, with(writer(), func(w *wish) { w.amend = true }), writer()) },
		"gives up":                func() *small { return newSmall(1, 0, 0, writer(), with(writer(), func(w *wish) { w.gives = true })) },
		"reclaims":                func() *small { return newSmall(1, 0, 0, with(writer(), dead), with(writer(), reclaims)) },
		"reclaims beside another": func() *small { return newSmall(0, 0, 0, with(writer(), dead), with(writer(), reclaims), writer()) },
		"reclaims what is kept": func() *small {
			return newSmall(0, 0, 0, with(writer(), func(w *wish) { w.job, w.keep = true, true }), with(writer(), reclaims))
		},
		"kept from Consul's own": func() *small {
			return newSmall(0, 0, 0, with(writer(), func(w *wish) { w.keep = true }), &wish{theirs: true})
		},
		"three, lost":           func() *small { return newSmall(1, 0, 0, writer(), writer(), writer()) },
		"Consul's own":          func() *small { return newSmall(1, 0, 0, &wish{theirs: true}, writer()) },
		"Consul's own, and two": func() *small { return newSmall(0, 0, 0, &wish{theirs: true}, writer(), writer()) },
		"Consul's own, removed": func() *small { return newSmall(0, 0, 1, &wish{theirs: true}, writer(), writer()) },
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

// TestGoalsWithMistakes removes one safeguard of the goals at a time. The walk finds each mistake.
func TestGoalsWithMistakes(t *testing.T) {
	t.Parallel()
	dropping := func(drops func(by stage, o *op) bool) *plan {
		by := ships()
		by.drops = drops
		return by
	}
	standing := func(change func(s *seat, q *queue, m *move)) *plan {
		by := ships()
		by.stands = func(s *seat, q *queue, was *answer) move {
			m := stands(s, q, was)
			change(s, q, &m)
			return m
		}
		return by
	}
	holds := func(q *queue, at int, m *move) {
		alone := q.entries[at].exclusive()
		*m = move{end: endHolds, place: driver.Place{Ticket: q.entries[at].ticket(), Holds: true}, exclusive: &alone}
	}
	reuses := ships()
	reuses.reuses = true
	for _, mistake := range []struct {
		what, world string
		by          *plan
	}{
		{"a claim's key is made though it is there", "lock-delay, lost", dropping(func(by stage, o *op) bool {
			return by == atJoin && o.Verb == missing && o.about == ownKey
		})},
		{"the lock's key is taken without a claim", "one after the other", dropping(func(by stage, o *op) bool {
			return by == atStand && o.Verb == locked && o.about == ownKey
		})},
		{"the lock's key is given back late", "three, lost", dropping(func(by stage, o *op) bool {
			return by == atStand && o.Verb == same && o.about == others
		})},
		{"the lock's key is not given back", "two", dropping(func(by stage, o *op) bool {
			return by == atLeave && o.Verb == remove && o.about == lockKey
		})},
		{"a claim's key stays", "two", dropping(func(by stage, o *op) bool {
			return by == atLeave && o.Verb == remove && o.about == ownKey
		})},
		{"what is kept has not the lock's key", "kept from Consul's own", dropping(func(by stage, o *op) bool {
			return by == atKeep && o.Verb == lock && o.about == lockKey
		})},
		{"an earlier run keeps the lock's key", "reclaims", dropping(func(_ stage, o *op) bool {
			return o.Verb == remove && o.Key == walkLockKey && o.about == others
		})},
		{"a session of unknown outcome serves the next claim", "gives up, lost", reuses},
		{"a try waits", "a try", standing(func(s *seat, q *queue, m *move) {
			if m.end == endExpelled && m.why == nil {
				m.end = endWaits
			}
		})},
		{"who has the lock's key holds", "a reader, lost", standing(func(s *seat, q *queue, m *move) {
			if q != nil && q.at(s) >= 0 && q.hasLockKey(s.session) {
				holds(q, q.at(s), m)
			}
		})},
		{"who is at the head holds beside Consul's own", "Consul's own", standing(func(s *seat, q *queue, m *move) {
			if m.end == endWaits && q.at(s) < q.entries.Holding() {
				holds(q, q.at(s), m)
			}
		})},
		{"who is at the head holds in a lock-delay", "lock-delay, a reader", standing(func(s *seat, q *queue, m *move) {
			if m.end == endWaits && q.at(s) < q.entries.Holding() {
				holds(q, q.at(s), m)
			}
		})},
		{"who waits holds", "readers and a writer", standing(func(s *seat, q *queue, m *move) {
			if m.end == endWaits {
				holds(q, q.at(s), m)
			}
		})},
		{"who waits hears of nothing", "two", standing(func(s *seat, q *queue, m *move) {
			if m.end == endWaits {
				m.wait = &target{key: s.key, index: q.entries[q.at(s)].ModifyIndex}
			}
		})},
	} {
		seen, wrong := someWorlds()[mistake.world]().walk(mistake.by)
		if wrong == "" {
			t.Errorf("nobody finds that %s (%s, %d worlds)", mistake.what, mistake.world, seen)
		}
		t.Logf("%s: %.80s, in world %d of %q", mistake.what, wrong, seen, mistake.world)
	}
}
