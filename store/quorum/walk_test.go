package quorum

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stilelock/stile/driver"
)

// A small world is three nodes and two claims that enter, hold and leave by the decisions of a majority. In each step a node
// carries out a request, or a client goes on. Some answers are lost, with the request or without it.
type small struct {
	nodes   [3]place
	claims  [2]seat
	lost    int8 // how many answers may be lost yet
	highest int8 // the highest ticket of a claim that held
}

// A place is one node's claim and ticket, and its answers.
type place struct {
	claim        int8 // its number from 1 on, or 0
	ticket, last int8
	said         [2][questions]answer // its answers to each claim
}

// A seat is a client's knowledge of its claim.
type seat struct {
	phase  stage
	ticket int8
	tries  int8 // how often it may enter again
}

// The questions to a node about a claim.
const (
	toVote = iota
	toRaise
	toLeave
	questions
)

type stage int8

const (
	absent  stage = iota // there is no such claim
	enters               // its client collects votes
	agrees               // a majority granted it, and its ticket is confirmed
	stands               // it holds
	leaving              // it is taken out of the nodes, since it leaves or has no majority
	over
)

// An answer is a node's answer.
type answer struct {
	kind   kind
	ticket int8 // of the claim, or of the claim in the way
}

type kind int8

const (
	none kind = iota
	yes
	no
	broken // no answer, and nobody knows whether the request arrived
	unasked
)

var errBroken = errors.New("broken")

func (a answer) vote() vote {
	switch a.kind {
	case yes:
		return vote{came: true, place: driver.Place{Holds: true, Ticket: int64(a.ticket)}}
	case no:
		return vote{came: true, place: driver.Place{Blocker: driver.ClaimInfo{Ticket: int64(a.ticket)}}}
	case broken:
		return vote{came: true, err: errBroken}
	default:
		return vote{}
	}
}

// votes returns the votes of all nodes for a claim.
func (w *small) votes(i int) (votes []vote) {
	for at := range w.nodes {
		votes = append(votes, w.nodes[at].said[i][toVote].vote())
	}
	return votes
}

// has counts the nodes that have given this kind of answer to a question about a claim.
func (w *small) has(i, question int, is kind) (n int) {
	for at := range w.nodes {
		if w.nodes[at].said[i][question].kind == is {
			n++
		}
	}
	return n
}

// A plan has the decisions of the walk: those that ship, or with a mistake.
type plan struct {
	m       majority
	least   [2]int8 // the ticket that each claim's client asks for, by its estimate of the nodes' clocks
	ticket  func(c *driver.Claim, votes []vote, held int64) int64
	agreed  func(votes []vote, ticket int64) (agreed int, others []int)
	remains func(votes []vote) (all, granted []int)
}

func planOf(m majority, least [2]int8) *plan {
	return &plan{m: m, least: least, ticket: m.ticket, agreed: byTicket, remains: remains}
}

var walked = &driver.Claim{ID: "walked"}

// next returns the worlds that come after this one.
func (w *small) next(by *plan) (worlds []small) {
	for i := range w.claims {
		s := &w.claims[i]
		switch s.phase {
		case enters:
			worlds = append(worlds, w.asked(i, toVote, by)...)
			votes := w.votes(i)
			c := sum(votes)
			if by.m.settled(walked, votes) || c.left == 0 || c.granted+c.refused >= by.m.need { // the rest may be slow
				worlds = append(worlds, w.decided(i, by))
			}
		case agrees:
			worlds = append(worlds, w.asked(i, toRaise, by)...)
			agreed, _ := by.agreed(w.votes(i), int64(s.ticket))
			switch {
			case agreed+w.has(i, toRaise, yes) >= by.m.need:
				worlds = append(worlds, w.moved(i, stands))
			case w.has(i, toRaise, none) == 0:
				worlds = append(worlds, w.takenOut(i, by))
			}
		case stands:
			for at := range w.nodes {
				if w.nodes[at].said[i][toVote].kind == none { // a vote that is late
					n := *w
					n.nodes[at].do(i, toVote, by, s)
					worlds = append(worlds, n)
				}
			}
			worlds = append(worlds, w.moved(i, leaving))
		case leaving:
			worlds = append(worlds, w.asked(i, toLeave, by)...)
			if w.has(i, toLeave, none) == 0 {
				worlds = append(worlds, w.moved(i, over))
			}
		case over:
			if s.tries > 0 {
				n := w.moved(i, enters)
				n.claims[i] = seat{phase: enters, tries: s.tries - 1}
				for at := range n.nodes {
					n.nodes[at].said[i] = [questions]answer{}
				}
				worlds = append(worlds, n)
			}
		}
	}
	for i := range worlds {
		// Worlds that differ only in the order of their nodes are one.
		slices.SortFunc(worlds[i].nodes[:], func(a, b place) int { return slices.Compare(a.key(), b.key()) })
	}
	return worlds
}

func (p *place) key() []int8 {
	key := []int8{p.claim, p.ticket, p.last}
	for _, to := range p.said {
		for _, a := range to {
			key = append(key, int8(a.kind), a.ticket)
		}
	}
	return key
}

func (w *small) moved(i int, to stage) small {
	n := *w
	n.claims[i].phase = to
	return n
}

// asked returns the worlds in which one more node has carried out a request for a claim.
func (w *small) asked(i, question int, by *plan) (worlds []small) {
	for at := range w.nodes {
		if w.nodes[at].said[i][question].kind != none {
			continue
		}
		done := *w
		done.nodes[at].do(i, question, by, &w.claims[i])
		worlds = append(worlds, done)
		if w.lost == 0 {
			continue
		}
		unheard, unsent := done, *w
		for _, n := range []*small{&unheard, &unsent} {
			n.lost--
			n.nodes[at].said[i][question] = answer{kind: broken}
			worlds = append(worlds, *n)
		}
	}
	return worlds
}

// do makes a node act as a [Member].
func (p *place) do(i, question int, by *plan, s *seat) {
	claim := int8(i + 1)
	if question == toVote && p.claim == 0 {
		p.claim, p.ticket = claim, max(p.last+1, by.least[i])
		p.last = p.ticket
	}
	said := &p.said[i][question]
	if *said = (answer{no, p.ticket}); p.claim != claim {
		return
	}
	switch question {
	case toRaise:
		p.ticket, p.last = s.ticket, max(p.last, s.ticket)
	case toLeave:
		p.claim, p.ticket = 0, 0
	}
	*said = answer{yes, p.ticket}
}

// decided moves on a client that has enough votes.
func (w *small) decided(i int, by *plan) small {
	votes := w.votes(i)
	if !by.m.granted(votes) {
		return w.takenOut(i, by)
	}
	n := w.moved(i, agrees)
	n.claims[i].ticket = int8(by.ticket(walked, votes, 0)) //nolint:gosec // tickets here are small
	_, others := by.agreed(votes, int64(n.claims[i].ticket))
	n.only(i, toRaise, others)
	return n
}

// takenOut begins to take a claim out of the nodes that may have it.
func (w *small) takenOut(i int, by *plan) small {
	n := w.moved(i, leaving)
	out, _ := by.remains(w.votes(i))
	n.only(i, toLeave, out)
	return n
}

// only marks all nodes but some as not asked.
func (w *small) only(i, question int, which []int) {
	for at := range w.nodes {
		if !slices.Contains(which, at) {
			w.nodes[at].said[i][question] = answer{kind: unasked}
		}
	}
}

// wrong returns what is wrong in a world that came after another, or "".
func (w *small) wrong(before *small) string {
	holds := 0
	for i := range w.claims {
		s := &w.claims[i]
		if s.phase == stands {
			holds++
			if before.claims[i].phase != stands {
				if s.ticket <= w.highest {
					return fmt.Sprintf("claim %d holds with ticket %d after one with %d", i+1, s.ticket, w.highest)
				}
				w.highest = s.ticket
			}
		}
		there := func(p place) bool { return p.claim == int8(i+1) }
		if s.phase == over && w.has(i, toLeave, broken) == 0 && slices.ContainsFunc(w.nodes[:], there) {
			return fmt.Sprintf("claim %d is over, all was answered, and it still stands: %+v", i+1, w.nodes)
		}
	}
	if holds > 1 {
		return "two claims hold"
	}
	return ""
}

// A beginning is the first world of a walk.
type beginning struct {
	least [2]int8
	lost  int8
	tries int8 // of the second claim
}

// walk visits every world that can come. It returns how many there are, and what is wrong in one of them.
func (b *beginning) walk(by *plan) (seen int, wrong string) {
	first := small{lost: b.lost, claims: [2]seat{{phase: enters}, {phase: enters, tries: b.tries}}}
	known, todo := map[small]bool{first: true}, []small{first}
	for len(todo) > 0 {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, n := range w.next(by) {
			if wrong := n.wrong(&w); wrong != "" {
				return len(known), wrong
			}
			if !known[n] {
				known[n] = true
				todo = append(todo, n)
			}
		}
	}
	return len(known), ""
}

// In beginnings the clients' estimates of the nodes' clocks are the same, or differ.
var beginnings = []beginning{
	{[2]int8{10, 10}, 1, 0}, {[2]int8{8, 10}, 1, 0},
	{[2]int8{10, 10}, 0, 1}, {[2]int8{8, 10}, 0, 1}, {[2]int8{10, 8}, 0, 1},
}

// TestWalk walks all states of two claims on three nodes. The two never hold at once, each ticket is above the tickets that
// held before, and a claim that is over stands nowhere.
func TestWalk(t *testing.T) {
	t.Parallel()
	for i := range beginnings {
		b := &beginnings[i]
		seen, wrong := b.walk(planOf(three(), b.least))
		if wrong != "" {
			t.Errorf("%+v: %s", *b, wrong)
		}
		t.Logf("%+v: %d worlds", *b, seen)
	}
}

// TestWalkWithMistakes makes one mistake at a time. The walk finds each.
func TestWalkWithMistakes(t *testing.T) {
	t.Parallel()
	half := three()
	half.need--
	for what, mistake := range map[string]func(by *plan){
		"half of the nodes is enough": func(by *plan) { by.m = half },
		"nobody confirms the ticket": func(by *plan) {
			by.agreed = func(votes []vote, _ int64) (int, []int) { return len(votes), nil }
		},
		"the lowest ticket is the claim's": func(by *plan) {
			by.ticket = func(_ *driver.Claim, votes []vote, _ int64) (ticket int64) {
				for _, v := range votes {
					if v.grants() && (ticket == 0 || v.place.Ticket < ticket) {
						ticket = v.place.Ticket
					}
				}
				return ticket
			}
		},
		"what granted a claim keeps it": func(by *plan) {
			by.remains = func(votes []vote) (all, granted []int) { return nil, nil }
		},
		"what was not heard keeps a claim": func(by *plan) {
			by.remains = func(votes []vote) (all, granted []int) { _, granted = remains(votes); return granted, granted }
		},
	} {
		found := ""
		for i := range beginnings {
			by := planOf(three(), beginnings[i].least)
			mistake(by)
			if _, wrong := beginnings[i].walk(by); wrong != "" {
				found = fmt.Sprintf("%s, in %+v", wrong, beginnings[i])
				break
			}
		}
		if found == "" {
			t.Errorf("nobody finds that %s", what)
		}
		t.Logf("%s: %s", what, found)
	}
}
