package keyqueue

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stilelock/stile/driver"
)

// A mixed world is one name with clients of this version and of an earlier one, that ask for different capacities. Any of
// them may not hear the answer to its request, and ask again, or die with its key in the store.
type mixed struct {
	keys    []int // the clients in the order of their keys
	clients []client
	lost    int // how many answers may be lost yet
	deaths  int // how many clients may die yet
}

type client struct {
	judge    judgement
	old      bool
	weight   int64
	capacity int64
	phase    phase
	letIn    bool // it knows its ticket
}

type phase int

const (
	outside phase = iota // it has not entered yet
	stands               // its key is there; it waits, or does not know where it stands
	holds                // it was told that it holds
	sentOff              // it is told to take its key out
	dead                 // its key is there, and goes when its session ends
	done
)

func (m *mixed) clone() *mixed {
	n := *m
	n.keys, n.clients = slices.Clone(m.keys), slices.Clone(m.clients)
	return &n
}

func (m *mixed) key() string {
	b := []byte{byte(m.lost), byte(m.deaths)}
	for i := range m.clients {
		b = append(b, byte(m.clients[i].phase), 0)
		if m.clients[i].letIn {
			b[len(b)-1] = 1
		}
	}
	for _, i := range m.keys {
		b = append(b, byte(i))
	}
	return string(b)
}

func (m *mixed) queue() (q Queue[entry]) {
	for _, i := range m.keys {
		c := &m.clients[i]
		q = append(q, entry{Ticket: int64(i + 1), Weight: c.weight, Capacity: c.capacity})
	}
	return q
}

// judged has a client told what its judgement is.
func (m *mixed) judged(i int) *mixed {
	n := m.clone()
	c := &n.clients[i]
	ticket := int64(0)
	if c.letIn {
		ticket = int64(i + 1)
	}
	claim := &driver.Claim{Weight: c.weight, Capacity: c.capacity, Ticket: ticket}
	switch c.judge(n.queue(), claim, slices.Index(n.keys, i)) {
	case Holds:
		c.phase, c.letIn = holds, true
	case Waits:
		c.letIn = true
	default:
		c.phase = sentOff
	}
	return n
}

func (m *mixed) out(i int, to phase) *mixed {
	n := m.clone()
	n.clients[i].phase = to
	n.keys = slices.DeleteFunc(n.keys, func(k int) bool { return k == i })
	return n
}

// next returns the worlds in which one client has gone on.
func (m *mixed) next(i int, apart bool) (worlds []*mixed) {
	c := &m.clients[i]
	switch c.phase {
	case outside:
		n := m.clone()
		n.keys, n.clients[i].phase = append(n.keys, i), stands
		if apart {
			worlds = append(worlds, n)
		} else {
			worlds = append(worlds, n.judged(i))
		}
		if m.lost > 0 && !apart {
			n.lost--
			worlds = append(worlds, n)
		}
	case stands:
		worlds = append(worlds, m.judged(i), m.out(i, done))
	case holds, sentOff:
		worlds = append(worlds, m.out(i, done))
	case dead:
		worlds = append(worlds, m.out(i, done))
	case done:
	}
	if m.deaths > 0 && slices.Contains(m.keys, i) && c.phase != dead {
		n := m.clone()
		n.deaths--
		n.clients[i].phase = dead
		worlds = append(worlds, n)
	}
	return worlds
}

// wrong returns the mistake in a world, or "".
func (m *mixed) wrong(tolerant bool) string {
	used := int64(0)
	for at, i := range m.keys {
		c := &m.clients[i]
		if c.phase != holds {
			continue
		}
		if c.old && tolerant {
			used += c.weight
			continue // it may have come in beside a claim of another capacity, as it always did
		}
		for _, j := range m.keys[:at] {
			if b := &m.clients[j]; b.phase == holds && b.capacity != c.capacity {
				return fmt.Sprintf("%d holds beside %d, of another capacity", i, j)
			}
		}
		if used += c.weight; used > c.capacity {
			return fmt.Sprintf("%d holds, and so %d of %d are held", i, used, c.capacity)
		}
	}
	if len(m.keys) == 0 {
		return ""
	}
	if head := &m.clients[m.keys[0]]; head.phase == stands {
		if after := m.judged(m.keys[0]).clients[m.keys[0]].phase; after == stands {
			return fmt.Sprintf("%d is at the head, and waits", m.keys[0])
		}
	}
	return ""
}

// walk visits every reachable world, and returns their number and the mistake in one of them.
func walk(s *store, first *mixed) (seen int, wrong string) {
	known, todo := map[string]bool{}, []*mixed{first}
	for len(todo) > 0 {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		key := m.key()
		if known[key] {
			continue
		}
		known[key] = true
		if wrong = m.wrong(s.name == "etcd"); wrong != "" {
			return len(known), fmt.Sprintf("%s: %+v", wrong, m)
		}
		for i := range m.clients {
			todo = append(todo, m.next(i, s.apart)...)
		}
	}
	return len(known), ""
}

// worlds are all in which some clients ask for permits of two capacities, each by this version or by an earlier one.
func worlds(now, before judgement, clients int, visit func(m *mixed)) {
	shapes := []client{{weight: 1, capacity: 2}, {weight: 2, capacity: 2}, {weight: 1, capacity: 3}}
	var extend func(m *mixed)
	extend = func(m *mixed) {
		if len(m.clients) == clients {
			visit(m)
			return
		}
		for _, c := range shapes {
			for _, old := range []bool{false, true} {
				if c.old, c.judge = old, now; old {
					c.judge = before
				}
				n := m.clone()
				n.clients = append(n.clients, c)
				extend(n)
			}
		}
	}
	extend(&mixed{lost: 1, deaths: 1})
}

// TestMixedWorlds has clients of this version and of 8c845d5c in one queue. Nobody of this version holds beside a claim that
// was before it and that has no room for it, and who is at the head does not wait.
func TestMixedWorlds(t *testing.T) {
	t.Parallel()
	for i := range stores {
		s := &stores[i]
		count, all := 0, 0
		worlds(s.now, s.before, 3, func(m *mixed) {
			seen, wrong := walk(s, m)
			if all, count = all+seen, count+1; wrong != "" {
				t.Fatalf("%s: %+v: %s", s.name, m.clients, wrong)
			}
		})
		t.Logf("%s: %d worlds, %d states", s.name, count, all)
	}
}

// The walk finds what goes wrong if a claim of another capacity counts for less than all there is.
func TestMixedWorldsFindMistakes(t *testing.T) {
	t.Parallel()
	for name, mistake := range map[string]judgement{
		"by its own weight": func(q Queue[entry], c *driver.Claim, at int) Verdict {
			like := slices.Clone(q)
			for i := range like {
				like[i].Capacity = c.Capacity
			}
			return nowEtcd(like, c, at)
		},
		"for nothing": func(q Queue[entry], c *driver.Claim, at int) Verdict {
			var like Queue[entry]
			for i, e := range q {
				if i == at {
					at = len(like)
					return nowEtcd(append(like, e), c, at)
				}
				if e.Capacity == c.Capacity {
					like = append(like, e)
				}
			}
			return Waits
		},
		"for all, also of those behind": func(q Queue[entry], c *driver.Claim, at int) Verdict {
			if q.Another(c.Capacity) != 0 {
				return Waits
			}
			return nowEtcd(q, c, at)
		},
	} {
		for i := range stores {
			s, found := &stores[i], ""
			worlds(mistake, mistake, 2, func(m *mixed) {
				if _, wrong := walk(s, m); wrong != "" {
					found = wrong
				}
			})
			if found == "" {
				t.Errorf("%s: nobody finds that a claim of another capacity counts %s", s.name, name)
			}
		}
	}
}
