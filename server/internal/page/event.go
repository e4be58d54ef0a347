package page

import "time"

// mostNames is how many names a viewer gets. The others are counted.
const mostNames = 5000

// An Event is what a viewer does not know yet. Times are milliseconds since the page's epoch.
type Event struct {
	Now     int64    `json:"now"`
	At      int64    `json:"at"`               // when the store was read
	Whole   bool     `json:"whole,omitempty"`  // the viewer forgets what it knew
	Failed  string   `json:"failed,omitempty"` // why the store cannot be read now
	Queues  []change `json:"queues,omitempty"` // the changed ones
	Leases  []leases `json:"leases,omitempty"` // of queues that are otherwise unchanged
	Gone    []string `json:"gone,omitempty"`   // names without claims, or that the viewer may no longer read
	LeftOut int      `json:"left_out,omitempty"`
}

// A change is a queue as it is now.
type change struct {
	Queue  rawQueue          `json:"queue"`
	Within map[string][]held `json:"within,omitempty"` // by the id of a waiting claim: what its client has meanwhile
}

// leases are when the leases of a queue's claims end, in the order of its claims.
type leases struct {
	Name  string  `json:"name"`
	Until []int64 `json:"until"`
}

// Event returns what the viewer does not know yet, of the names that it may read. Call it after Wait.
func (v *Viewer) Event(reads func(name string) bool) *Event {
	v.p.mu.Lock()
	s := v.p.latest
	v.p.mu.Unlock()
	e := &Event{Now: v.p.at(time.Now()), At: s.at, Failed: s.failed, Whole: v.sent == nil}
	sent := make(map[string]*queue, len(s.queues))
	for _, q := range s.queues {
		if !reads(q.Name) {
			continue
		}
		if len(sent) == mostNames {
			e.LeftOut++
			continue
		}
		switch was := v.sent[q.Name]; {
		case was == nil || was.shape != q.shape:
			e.Queues = append(e.Queues, change{q.text(), q.within(reads)})
		case !sameLeases(was, q):
			l := leases{Name: q.Name, Until: make([]int64, len(q.Claims))}
			for i, c := range q.Claims {
				l.Until[i] = c.Until
			}
			e.Leases = append(e.Leases, l)
		}
		sent[q.Name] = q
	}
	for name := range v.sent {
		if sent[name] == nil {
			e.Gone = append(e.Gone, name)
		}
	}
	v.last, v.sent = s, sent
	return e
}

func sameLeases(a, b *queue) bool {
	for i, c := range a.Claims {
		if c.Until != b.Claims[i].Until {
			return false
		}
	}
	return true
}

// within returns what the clients of waiting claims have meanwhile, of the names that a viewer may read.
func (q *queue) within(reads func(name string) bool) map[string][]held {
	var all map[string][]held
	for _, c := range q.Claims {
		for _, h := range c.has {
			if !reads(h[0]) || c.State != waits || c.ID == "" {
				continue
			}
			if all == nil {
				all = map[string][]held{}
			}
			all[c.ID] = append(all[c.ID], h)
		}
	}
	return all
}
