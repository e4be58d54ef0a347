package page

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/record"
)

// most is how many holders, and how many waiters, a queue is shown with. The others are counted.
const most = 50

const (
	sameSince = 2000 // milliseconds by which two readings of one entry may differ
	sameUntil = 500  // milliseconds by which two readings of one lease may differ
	looked    = 5000 // the most milliseconds between two snapshots that show when a claim began to hold
)

// A snapshot is never changed. A queue that did not change is the same in the next snapshot.
type snapshot struct {
	at     int64 // when its List began; of a failed List: when the last good one began
	failed string
	queues []*queue          // in order of their names
	of     map[string]*queue // by name
}

// A queue is one name with its claims.
type queue struct {
	Name   string   `json:"name"`
	Of     int64    `json:"of,omitempty"`    // the permits of the name; 0 without permits
	Taken  int64    `json:"taken,omitempty"` // of the permits
	Holds  int      `json:"holds"`           // claims that hold or are kept
	Waits  int      `json:"waits"`
	Claims []*claim `json:"claims"`          // the first of those that hold, then the first of those that wait
	Ended  int      `json:"ended,omitempty"` // changes of the name's history

	shape int64           // when something other than the leases changed
	all   []*claim        // in the order of the store; those that are not in Claims have only numbers
	text  func() rawQueue // the JSON of the fields
}

type rawQueue = json.RawMessage

// A who describes a claim's client.
type who struct {
	Owner     string `json:"owner,omitempty"`
	Principal string `json:"principal,omitempty"` // that the service has checked
	Program   string `json:"program,omitempty"`
	Host      string `json:"host,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Value     string `json:"value,omitempty"`
}

// A claim is a claim of a queue. Times are milliseconds since the page's epoch.
type claim struct {
	ID      string `json:"id,omitempty"` // its ticket; a break names it
	Token   string `json:"token,omitempty"`
	State   state  `json:"state"`
	Shared  bool   `json:"shared,omitempty"`
	Permits int64  `json:"permits,omitempty"`
	who
	Since int64 `json:"since"`           // when it entered
	Held  int64 `json:"held,omitempty"`  // when it began to hold, if a viewer was there
	Until int64 `json:"until,omitempty"` // when its lease ends, if it holds and the store reports that
	TTL   int64 `json:"ttl,omitempty"`   // of its lease after a renewal, in milliseconds

	ticket, weight int64
	shown          bool // it is among the first
	record         string
	has            []held
}

// A state is what a claim does.
type state string

const (
	holds state = "holds"
	kept  state = "kept" // released, and keeps others out for a while
	waits state = "waits"
)

// A held is a claim that the client of a waiting claim has: its name and its ticket.
type held [2]string

// nextLocked returns the snapshot after the latest one.
func (p *Page) nextLocked(at int64, list []driver.Listing, err error) *snapshot {
	was := p.latest
	if was == nil {
		was = &snapshot{}
	}
	if err != nil {
		return &snapshot{at: was.at, failed: err.Error(), queues: was.queues, of: was.of}
	}
	s := &snapshot{at: at, of: make(map[string]*queue, len(list))}
	for i := range list {
		q := p.queueLocked(&list[i], was, at)
		s.queues, s.of[q.Name] = append(s.queues, q), q
	}
	for _, q := range was.queues {
		if s.of[q.Name] == nil {
			p.endedLocked(q.Name, q.all, was.at, at)
		}
	}
	return s
}

// queueLocked returns the queue of a listing.
func (p *Page) queueLocked(l *driver.Listing, last *snapshot, at int64) *queue {
	q := &queue{Name: l.Name, shape: at, all: make([]*claim, len(l.Claims))}
	was, w := last.of[l.Name], walk{}
	if was != nil {
		w.left = was.all
	}
	var line []*claim
	for i := range l.Claims {
		c := &l.Claims[i]
		before := w.to(c.Ticket)
		n := &q.Waits
		if c.Holds || c.Left {
			n = &q.Holds
			q.Taken += c.Weight
		}
		*n++
		now := claimOf(c, before, at)
		q.all[i] = now
		now.began(before, last, at)
		if before != nil && before.State == holds && now.State == kept {
			w.gone = append(w.gone, before)
		}
		if *n > most {
			continue
		}
		p.describe(now, c, before, l.Capacity)
		if now.State == waits {
			line = append(line, now)
		} else {
			q.Claims = append(q.Claims, now)
		}
	}
	q.Claims = append(q.Claims, line...)
	if q.Of = l.Capacity; q.Of == driver.All {
		q.Of, q.Taken = 0, 0
	}
	p.endedLocked(q.Name, append(w.gone, w.left...), last.at, at)
	q.Ended = p.history.changes(q.Name)
	q.text = sync.OnceValue(func() rawQueue {
		text, _ := json.Marshal(q) // cannot fail: there are only texts and numbers
		return text
	})
	if was != nil && was.looksLike(q) {
		q.shape = was.shape
		if sameLeases(was, q) {
			q.text = was.text
		}
	}
	return q
}

// A walk goes along the claims of a queue in an earlier snapshot, in the order of their tickets.
type walk struct {
	left []*claim
	gone []*claim // those that are not there any more
}

// to returns the claim with a ticket, or nil.
func (w *walk) to(ticket int64) (before *claim) {
	for len(w.left) > 0 && w.left[0].ticket < ticket {
		w.gone, w.left = append(w.gone, w.left[0]), w.left[1:]
	}
	if len(w.left) > 0 && w.left[0].ticket == ticket {
		before, w.left = w.left[0], w.left[1:]
	}
	return before
}

// claimOf returns the numbers of a claim. before is the claim as it was, or nil.
func claimOf(c *driver.ClaimInfo, before *claim, at int64) *claim {
	now := &claim{State: waits, Since: at - c.Since.Milliseconds(), ticket: c.Ticket, weight: c.Weight}
	switch {
	case c.Left:
		now.State = kept
	case c.Holds:
		now.State = holds
	}
	if now.State != waits && c.Remaining != 0 {
		now.Until = at + c.Remaining.Milliseconds()
	}
	if before != nil {
		now.Held = before.Held
		if near(now.Since, before.Since, sameSince) {
			now.Since = before.Since
		}
		if now.Until != 0 && before.Until != 0 && near(now.Until, before.Until, sameUntil) {
			now.Until = before.Until
		}
	}
	return now
}

// began notes when a claim began to hold, if the last snapshot was just before.
func (c *claim) began(before *claim, last *snapshot, at int64) {
	switch {
	case c.Held != 0 || c.State == waits || last.of == nil || at-last.at > looked:
	case before != nil && before.State == waits:
		c.Held = at
	case before == nil && c.Since >= last.at:
		c.Held = c.Since
	}
}

// describe adds to a claim what people read.
func (p *Page) describe(now *claim, c *driver.ClaimInfo, before *claim, capacity int64) {
	now.shown, now.record = true, c.Record
	if c.Ticket != 0 {
		now.ID, now.Token = strconv.FormatInt(c.Ticket, 10), p.token(c.Ticket)
	}
	switch {
	case capacity == driver.All:
		now.Shared = c.Weight < capacity
	case capacity > 0:
		now.Permits = c.Weight
	}
	if before != nil && before.shown && before.record == c.Record {
		now.who, now.TTL, now.has = before.who, before.TTL, before.has
		return
	}
	h := record.Read(c.Record)
	now.who = who{h.Owner, h.Principal, h.Program, h.Host, h.PID, h.Reason, h.Value}
	now.TTL = record.TTL(c.Record).Milliseconds()
	for line := range strings.Lines(h.Within) {
		ticket, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		now.has = append(now.has, held{name, ticket})
	}
}

func near(a, b, within int64) bool { return a-b < within && b-a < within }

// looksLike reports whether two queues differ in nothing but the leases.
func (q *queue) looksLike(o *queue) bool {
	return q.Of == o.Of && q.Taken == o.Taken && q.Holds == o.Holds && q.Waits == o.Waits && q.Ended == o.Ended &&
		slices.EqualFunc(q.Claims, o.Claims, func(a, b *claim) bool {
			return a.ticket == b.ticket && a.State == b.State && a.Since == b.Since && a.Held == b.Held && a.weight == b.weight &&
				a.record == b.record && (a.Until == 0) == (b.Until == 0)
		})
}
