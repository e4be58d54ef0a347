package quorum

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// A stance is one answer of a node, and its certain meaning.
type stance struct {
	what   string
	vote   vote
	yes    bool // the claim stands on the node
	no     bool // the claim does not stand there
	before bool // it stood there before it was asked for
	lost   bool // the request may have been applied, and the answer does not say so
}

const (
	asksFor = 10 // the ticket that the nodes are asked for
	older   = 5  // the ticket with which the claim may stand there
)

// stances returns all answers of a node.
func stances() []stance {
	grants := func(ticket int64) vote {
		return vote{came: true, place: driver.Place{Holds: true, Ticket: ticket, TTL: time.Duration(ticket)}}
	}
	refuses := func(by string, ticket int64) vote {
		return vote{came: true, place: driver.Place{
			Ahead: 1, Blocker: driver.ClaimInfo{Record: by, Ticket: ticket}, Retry: time.Duration(ticket),
		}}
	}
	fails := func(err error) vote { return vote{came: true, err: err} }
	return []stance{
		{what: "silent", lost: true},
		{what: "had it", vote: grants(older), yes: true, before: true},
		{what: "grants", vote: grants(asksFor), yes: true},
		{what: "grants later", vote: grants(asksFor + 2), yes: true},
		{what: "has b", vote: refuses("b", 3), no: true},
		{what: "has c", vote: refuses("c", 7), no: true},
		{what: "gone", vote: fails(driver.ErrGone), no: true},
		{what: "foreign", vote: fails(driver.Refused(driver.ErrForeign)), no: true},
		{what: "unsent", vote: fails(driver.Unsent(driver.Unreachable(errors.New("down"))))},
		{what: "denied", vote: fails(driver.Refused(errors.New("no memory")))},
		{what: "lost", vote: fails(driver.Unreachable(errors.New("broken"))), lost: true},
	}
}

// A poll is one answer of each of three nodes.
type poll []*stance

func (p poll) votes() (votes []vote) {
	for _, s := range p {
		votes = append(votes, s.vote)
	}
	return votes
}

func (p poll) String() (text string) {
	for _, s := range p {
		text += ": " + s.what
	}
	return text
}

// count counts the nodes for which is is true.
func (p poll) count(is func(s *stance) bool) (n int) {
	for _, s := range p {
		if is(s) {
			n++
		}
	}
	return n
}

func (p poll) says(what ...string) int {
	return p.count(func(s *stance) bool { return slices.Contains(what, s.what) })
}

func (p poll) silent() bool { return p.says("silent") > 0 }

// polls returns all answers of three nodes.
func polls() (all []poll) {
	list := stances()
	for i := range list {
		for j := range list {
			for k := range list {
				all = append(all, poll{&list[i], &list[j], &list[k]})
			}
		}
	}
	return all
}

// completed returns the polls in which the silent nodes have answered.
func (p poll) completed() []poll {
	i := slices.IndexFunc(p, func(s *stance) bool { return s.what == "silent" })
	if i < 0 {
		return []poll{p}
	}
	var all []poll
	list := stances()
	for s := range list[1:] {
		q := slices.Clone(p)
		q[i] = &list[1+s]
		all = append(all, q.completed()...)
	}
	return all
}

// decisions are the functions of a majority, of which a test may replace one.
type decisions struct {
	granted    func(votes []vote) bool
	settled    func(c *driver.Claim, votes []vote) bool
	doubtful   func(c *driver.Claim, votes []vote, least, held int64) bool
	mayHold    func(c *driver.Claim, votes []vote, least, held int64) bool
	goes       func(c *driver.Claim, v vote, least, held int64, cannotHold bool) bool
	cannotHold func(votes []vote) bool
	ticket     func(c *driver.Claim, votes []vote, held int64) int64
	departed   func(votes []vote) bool
	parting    func(votes []vote) error
	still      func(votes []vote, cause error) error
	missed     func(c *driver.Claim, votes []vote, cause error, clean bool) (driver.Place, error)
	blocker    func(votes []vote) *driver.ClaimInfo
	remains    func(votes []vote) (all, granted []int)
}

func of(m majority) *decisions {
	return &decisions{
		m.granted, m.settled, m.doubtful, m.mayHold, m.goes, m.cannotHold, m.ticket, m.departed, m.parting, m.still, m.missed,
		m.blocker, remains,
	}
}

func three() majority { return majorityOf([]Node{{Name: "x"}, {Name: "y"}, {Name: "z"}}) }

// A term is a claim, and whether this client knows that it holds.
type term struct {
	claim driver.Claim
	held  int64
}

func terms() []term {
	fresh := driver.Claim{ID: "a", TTL: time.Second, Wait: time.Second}
	again, reclaims, tries := fresh, fresh, fresh
	again.Ticket, reclaims.Reclaim, tries.Try = older, true, true
	return []term{{fresh, 0}, {fresh, older}, {again, older}, {again, 0}, {reclaims, 0}, {tries, 0}}
}

// outcome returns the outcome of a round that gets no other votes.
func (d *decisions) outcome(t *term, p poll) string {
	switch votes := p.votes(); {
	case d.granted(votes):
		return fmt.Sprint("holds with ", d.ticket(&t.claim, votes, t.held))
	case d.cannotHold(votes):
		return "cannot hold"
	default:
		return "open"
	}
}

// A rule is a rule of the decisions in plain words, and reports whether they break it for a claim and its answers.
type rule struct {
	says  string
	wrong func(d *decisions, t *term, p poll) bool
}

var rules = []rule{
	{"a claim holds when two of three nodes granted it", func(d *decisions, _ *term, p poll) bool {
		return d.granted(p.votes()) != (p.count(func(s *stance) bool { return s.yes }) >= 2)
	}},
	{"a claim cannot hold if it cannot stand on two nodes", func(d *decisions, _ *term, p poll) bool {
		return d.cannotHold(p.votes()) != (p.count(func(s *stance) bool { return !s.no }) < 2)
	}},
	{"two claims never both hold", func(d *decisions, _ *term, p poll) bool {
		var other []vote // the most votes that another claim can get
		for _, s := range p {
			other = append(other, vote{came: true, place: driver.Place{Holds: !s.yes}})
		}
		return d.granted(p.votes()) && d.granted(other)
	}},
	{"a round is settled when the nodes that are silent can change nothing", func(d *decisions, t *term, p poll) bool {
		if !p.silent() {
			return false
		}
		ends := map[string]bool{}
		for _, q := range p.completed() {
			ends[d.outcome(t, q)] = true
		}
		same := len(ends) == 1 && !ends["open"] && (ends["cannot hold"] || !t.claim.Reclaim)
		return d.settled(&t.claim, p.votes()) != same
	}},
	{"the ticket is one that two nodes gave, or the highest, unless it is known", func(d *decisions, t *term, p poll) bool {
		if p.count(func(s *stance) bool { return s.yes }) < 2 {
			return false
		}
		var want int64
		for _, s := range p {
			if s.yes {
				want = max(want, s.vote.place.Ticket)
			}
		}
		if t.held == older && p.says("had it") > 0 {
			want = older
		}
		for what, ticket := range map[string]int64{"had it": older, "grants": asksFor, "grants later": asksFor + 2} {
			if p.says(what) >= 2 {
				want = ticket
			}
		}
		if t.claim.Ticket != 0 {
			want = t.claim.Ticket
		}
		return d.ticket(&t.claim, p.votes(), t.held) != want
	}},
	{"a claim that another client may have won is seen by the nodes that had it", func(d *decisions, t *term, p poll) bool {
		possible := p.count(func(s *stance) bool { return s.no }) < 2
		want := t.claim.Ticket == 0 && t.held == 0 && p.says("had it") > 0 && possible
		return d.mayHold(&t.claim, p.votes(), asksFor, t.held) != want
	}},
	{"all nodes are heard if it may hold, and no two agree on a ticket", func(d *decisions, t *term, p poll) bool {
		agreed := p.says("had it") >= 2 || p.says("grants") >= 2 || p.says("grants later") >= 2
		return d.doubtful(&t.claim, p.votes(), asksFor, t.held) != (!agreed && d.mayHold(&t.claim, p.votes(), asksFor, t.held))
	}},
	{"what is taken out may be there, and stood there before only if it cannot hold", func(d *decisions, t *term, p poll) bool {
		all, granted := d.remains(p.votes())
		for i, s := range p {
			if slices.Contains(granted, i) != s.yes || slices.Contains(all, i) != (s.yes || s.lost) {
				return true
			}
			for _, cannotHold := range []bool{false, true} {
				stays := s.before && !cannotHold && t.claim.Ticket == 0 && t.held == 0
				if d.goes(&t.claim, s.vote, asksFor, t.held, cannotHold) != ((s.yes || s.lost) && !stays) {
					return true
				}
			}
		}
		return false
	}},
	{"a claim that may hold is not reported as refused, gone or left out", func(d *decisions, t *term, p poll) bool {
		gone := p.count(func(s *stance) bool { return s.no }) >= 2
		broken := errors.New("broken")
		err := d.still(p.votes(), nil)
		return errors.Is(err, driver.ErrGone) != gone || err == nil ||
			!gone && !driver.IsUnreachable(err) && p.says("denied") < 2 || !errors.Is(d.still(p.votes(), broken), broken)
	}},
	{"a claim waits where two nodes may yet have room, and what it leaves behind is told", missedWrong},
	{"a claim that leaves has left when two nodes let it go, or two do not have it", func(d *decisions, _ *term, p poll) bool {
		left := p.count(func(s *stance) bool { return s.vote.came && s.vote.err == nil }) >= 2
		gone := p.says("gone") >= 2
		err := d.parting(p.votes())
		return d.departed(p.votes()) != (left || gone) || left != (err == nil) || gone != errors.Is(err, driver.ErrGone)
	}},
	{"who stands in the way is whom two nodes show", func(d *decisions, t *term, p poll) bool {
		want := ""
		switch {
		case p.says("has b") >= 2:
			want = "b"
		case p.says("has c") >= 2:
			want = "c"
		}
		if by := d.blocker(p.votes()); (by == nil) != (want == "") || by != nil && by.Record != want {
			return true
		}
		if want == "" && p.says("has c") > 0 {
			want = "c" // the later one
		} else if want == "" && p.says("has b") > 0 {
			want = "b"
		}
		place, err := d.missed(&t.claim, p.votes(), nil, true)
		return err == nil && place.Blocker.Record != want
	}},
}

// missedWrong checks the result for a claim without a majority against the answers.
func missedWrong(d *decisions, t *term, p poll) bool {
	if d.granted(p.votes()) {
		return false
	}
	for _, clean := range []bool{false, true} {
		place, err := d.missed(&t.claim, p.votes(), nil, clean)
		few := p.says("unsent", "denied", "lost", "gone") >= 2
		var want string
		switch {
		case p.says("gone") >= 2:
			want = "gone"
		case p.says("foreign") >= 2:
			want = "foreign"
		case few && clean && p.says("unsent") < 3:
			want = "refused"
		case few && clean:
			want = "unsent"
		case few:
			want = "few"
		case t.claim.Try:
			want = "no"
		default:
			want = "waits"
		}
		if got := told(place, err); got != want {
			return true
		}
	}
	lost := errors.New("lost")
	_, clean := d.missed(&t.claim, p.votes(), lost, true)
	_, left := d.missed(&t.claim, p.votes(), lost, false)
	return driver.OutcomeOf(clean) != driver.OutcomeUnsent || driver.OutcomeOf(left) != driver.OutcomeUnknown
}

// told returns a word for the result of a claim.
func told(p driver.Place, err error) string {
	switch {
	case errors.Is(err, driver.ErrGone):
		return "gone"
	case errors.Is(err, driver.ErrForeign):
		return "foreign"
	case err == nil && p.Ticket == waitingTicket && !p.Holds:
		return "waits"
	case err == nil && p.Ticket == 0 && !p.Holds:
		return "no"
	}
	switch driver.OutcomeOf(err) {
	case driver.OutcomeRefused:
		return "refused"
	case driver.OutcomeUnsent:
		return "unsent"
	default:
		return "few"
	}
}

// breaks returns a claim and answers for which the decisions break a rule, or "".
func (d *decisions) breaks(r *rule, all []poll) string {
	for _, t := range terms() {
		for _, p := range all {
			if r.wrong(d, &t, p) {
				c := &t.claim
				return fmt.Sprintf("ticket %d, reclaims %v, tries %v, held with %d%v", c.Ticket, c.Reclaim, c.Try, t.held, p)
			}
		}
	}
	return ""
}

// TestDecisions checks the decisions against the rules, for all answers of three nodes.
func TestDecisions(t *testing.T) {
	t.Parallel()
	all := polls()
	for i := range rules {
		if where := of(three()).breaks(&rules[i], all); where != "" {
			t.Errorf("not so: %s: %s", rules[i].says, where)
		}
	}
}

// Nodes that are no members each give tickets of their own, and the ticket of a claim is made of its id.
func TestDecisionsWithoutTickets(t *testing.T) {
	t.Parallel()
	m := three()
	m.ranked = false
	a, b := driver.Claim{ID: "a"}, driver.Claim{ID: "b"}
	for _, p := range polls() {
		votes := p.votes()
		if granted := m.granted(votes); m.settled(&a, votes) != (granted || m.cannotHold(votes)) || m.mayHold(&a, votes, asksFor, 0) {
			t.Errorf("without tickets, settled is %v for%v; want it so by two votes alone", !granted, p)
		}
		if m.ticket(&a, votes, 0) != m.ticket(&a, nil, 0) || m.ticket(&a, votes, 0) == m.ticket(&b, votes, 0) {
			t.Errorf("without tickets, the claim has %d for%v; want one of its id alone", m.ticket(&a, votes, 0), p)
		}
	}
}

// TestRenewalDecides checks the result of a renewal for all answers of three nodes.
func TestRenewalDecides(t *testing.T) {
	t.Parallel()
	m := three()
	for renewed := range 4 {
		for gone := range 4 - renewed {
			for failed := range 4 - renewed - gone {
				left := 3 - renewed - gone - failed
				own := &tally{gone: gone, failing: failed, failed: errors.New("broken")}
				for i := range renewed {
					own.leases = append(own.leases, time.Duration(i+1))
				}
				want, decided := "", true
				switch {
				case renewed >= 2:
					want = "renewed"
				case gone >= 2:
					want = "gone"
				case renewed+left < 2 && gone+left < 2, left == 0:
					want = "unknown"
				default:
					decided = false
				}
				got := ""
				if own.decide(m, left) {
					words := map[driver.Outcome]string{driver.OutcomeRefused: "gone", driver.OutcomeUnknown: "unknown"}
					got = words[driver.OutcomeOf(own.answer.Err)]
					if own.answer.Err == nil {
						got = "renewed"
					}
				}
				if got != want || own.decided != decided || want == "renewed" && own.answer.TTL != time.Duration(renewed-1) {
					t.Errorf("%d renewed, %d gone, %d failed: %q with %v; want %q", renewed, gone, failed, got, own.answer, want)
				}
			}
		}
	}
}
