package page

import "time"

// A history has what snapshots showed of holds that ended. A hold between two snapshots is in none of them.
type history struct {
	of    map[string]*past
	sizes map[string]int // names of each principal
	count int            // of all changes ever
}

const (
	pastNames = 1000
	pastEnds  = 64 // of each name
)

// A past is the history of one name.
type past struct {
	ends    []*End // the last ones, oldest first
	changes int
	last    int    // history.count at its last change
	by      string // the principal of that change

	broken map[int64]Broken // by ticket: claims that this page broke, until a snapshot shows so
}

// An End is a claim that no longer holds, or a waiting claim that this page broke.
type End struct {
	Token string `json:"token,omitempty"`
	who
	Since  int64   `json:"since"`          // when it entered
	Held   int64   `json:"held,omitempty"` // when it began to hold; 0 if it never did, or nobody looked
	Seen   int64   `json:"seen"`           // when it was seen last
	Gone   int64   `json:"gone"`           // when it was not there first
	How    how     `json:"how"`
	Broken *Broken `json:"broken,omitempty"`
}

// A how is how a hold ended, as far as two snapshots show it.
type how string

const (
	released how = "released" // while its lease had time left; perhaps by a break elsewhere
	lapsed   how = "lapsed"   // its lease had run out
	broke    how = "broken"   // by this page
)

// Broken says who broke a claim, and why.
type Broken struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason"`
}

func newHistory() *history { return &history{of: map[string]*past{}, sizes: map[string]int{}} }

// changes returns how often the history of a name has changed.
func (h *history) changes(name string) int {
	if p := h.of[name]; p != nil {
		return p.changes
	}
	return 0
}

// name returns the past of a name that a principal's claim changes. If there are too many, it drops one.
func (h *history) name(name, principal string) *past {
	p := h.of[name]
	if p == nil {
		if len(h.of) == pastNames {
			h.drop()
		}
		p = &past{broken: map[int64]Broken{}}
		h.of[name] = p
	} else {
		h.less(p.by)
	}
	h.sizes[principal]++
	h.count++
	p.last, p.by = h.count, principal
	return p
}

// drop drops the name whose past has been unchanged for longest, of the principal with the most names: who takes ever new names
// pushes out its own.
func (h *history) drop() {
	most := 0
	for _, n := range h.sizes {
		most = max(most, n)
	}
	oldest := ""
	for name, p := range h.of {
		if h.sizes[p.by] == most && (oldest == "" || p.last < h.of[oldest].last) {
			oldest = name
		}
	}
	h.less(h.of[oldest].by)
	delete(h.of, oldest)
}

// less counts one name less of a principal.
func (h *history) less(principal string) {
	if h.sizes[principal]--; h.sizes[principal] == 0 {
		delete(h.sizes, principal)
	}
}

// endedLocked notes claims of a name that were there at one time and no longer hold at another.
func (p *Page) endedLocked(name string, gone []*claim, seen, at int64) {
	for _, c := range gone {
		broken, byUs := Broken{}, false
		if past := p.history.of[name]; past != nil {
			broken, byUs = past.broken[c.ticket]
		}
		if !c.shown || c.State != holds && !byUs {
			continue
		}
		past := p.history.name(name, c.Principal)
		e := &End{Token: c.Token, who: c.who, Since: c.Since, Held: c.Held, Seen: seen, Gone: at, How: released}
		switch {
		case byUs:
			e.How, e.Broken = broke, &broken
			delete(past.broken, c.ticket)
		case c.Until != 0 && c.Until <= at:
			e.How = lapsed
		}
		past.ends = append(past.ends, e)
		if len(past.ends) > pastEnds {
			past.ends = past.ends[1:]
		}
		past.changes++
	}
}

// Broke notes that a viewer broke a claim.
func (p *Page) Broke(name string, ticket int64, b Broken) {
	p.mu.Lock()
	defer p.mu.Unlock()
	past := p.history.name(name, b.By)
	if len(past.broken) == pastEnds {
		clear(past.broken) // of claims that no snapshot has shown
	}
	past.broken[ticket] = b
}

// Recent returns the holds of a name that ended, the latest first, and what time it is.
func (p *Page) Recent(name string) (ends []*End, now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ends = []*End{}
	if past := p.history.of[name]; past != nil {
		for i := len(past.ends) - 1; i >= 0; i-- {
			ends = append(ends, past.ends[i])
		}
	}
	return ends, p.at(time.Now())
}
