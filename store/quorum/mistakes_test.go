package quorum

import (
	"slices"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
)

// TestDecisionsWithMistakes makes one mistake in the decisions at a time. A rule finds each.
func TestDecisionsWithMistakes(t *testing.T) {
	t.Parallel()
	m, all := three(), polls()
	free := m
	free.ranked = false
	with := func(change func(d *decisions)) *decisions {
		d := of(m)
		change(d)
		return d
	}
	half := m
	half.need--
	for _, mistake := range []struct {
		what, rule string
		by         *decisions
	}{
		{"half of the nodes is enough", "a claim holds when", of(half)},
		{"half of the nodes is enough for two", "two claims never", of(half)},
		{"one node that lacks a claim decides", "a claim cannot hold", with(func(d *decisions) {
			d.cannotHold = func(votes []vote) bool { n := sum(votes); return n.refused+n.gone+n.foreign >= m.need-1 }
		})},
		{"what is gone can hold", "a claim cannot hold", with(func(d *decisions) {
			d.cannotHold = func(votes []vote) bool { n := sum(votes); return m.prevents(n.refused + n.foreign) }
		})},
		{"a failure counts as a no", "a claim cannot hold", with(func(d *decisions) {
			d.cannotHold = func(votes []vote) bool {
				n := sum(votes)
				return m.prevents(len(votes) - n.granted - n.left)
			}
		})},
		{"tickets need not agree", "a round is settled", with(func(d *decisions) {
			d.settled = func(c *driver.Claim, votes []vote) bool { return m.granted(votes) || m.cannotHold(votes) }
		})},
		{"a claim with a ticket waits for the others' tickets", "a round is settled", with(func(d *decisions) {
			d.settled = func(_ *driver.Claim, votes []vote) bool {
				_, agreed := m.common(votes)
				return agreed || m.cannotHold(votes)
			}
		})},
		{"a reclaiming claim does not hear all", "a round is settled", with(func(d *decisions) {
			d.settled = func(c *driver.Claim, votes []vote) bool {
				own := *c
				own.Reclaim = false
				return m.settled(&own, votes)
			}
		})},
		{"a refusal settles nothing", "a round is settled", with(func(d *decisions) {
			d.settled = func(_ *driver.Claim, votes []vote) bool { _, agreed := m.common(votes); return agreed }
		})},
		{"the lowest ticket is the claim's", "the ticket is one", with(func(d *decisions) {
			d.ticket = func(c *driver.Claim, votes []vote, held int64) int64 {
				least := m.ticket(c, votes, held)
				for _, v := range votes {
					if v.grants() && c.Ticket == 0 {
						least = min(least, v.place.Ticket)
					}
				}
				return least
			}
		})},
		{"the highest ticket is the claim's, whatever most gave", "the ticket is one", with(func(d *decisions) {
			d.ticket = func(c *driver.Claim, votes []vote, held int64) int64 {
				most := m.ticket(c, votes, held)
				for _, v := range votes {
					if v.grants() && c.Ticket == 0 {
						most = max(most, v.place.Ticket)
					}
				}
				return most
			}
		})},
		{"the ticket that is known is forgotten", "the ticket is one", with(func(d *decisions) {
			d.ticket = func(c *driver.Claim, votes []vote, _ int64) int64 { return m.ticket(c, votes, 0) }
		})},
		{"a claim enters again with another ticket", "the ticket is one", with(func(d *decisions) {
			d.ticket = func(_ *driver.Claim, votes []vote, held int64) int64 { return m.ticket(&driver.Claim{}, votes, held) }
		})},
		{"tickets are numbers of their own", "the ticket is one", with(func(d *decisions) { d.ticket = free.ticket })},
		{"nobody else's claim may hold", "a claim that another client", with(func(d *decisions) {
			d.mayHold = func(*driver.Claim, []vote, int64, int64) bool { return false }
		})},
		{"one that cannot hold may hold", "a claim that another client", with(func(d *decisions) {
			d.mayHold = func(c *driver.Claim, votes []vote, least, held int64) bool {
				return slices.ContainsFunc(votes, func(v vote) bool { return m.early(c, v, least, held) })
			}
		})},
		{"one that holds here may hold elsewhere", "a claim that another client", with(func(d *decisions) {
			d.mayHold = func(c *driver.Claim, votes []vote, least, _ int64) bool { return m.mayHold(c, votes, least, 0) }
		})},
		{"what has just been granted was there before", "a claim that another client", with(func(d *decisions) {
			d.mayHold = func(c *driver.Claim, votes []vote, least, held int64) bool { return m.mayHold(c, votes, least+1, held) }
		})},
		{"doubt is over with the first votes", "all nodes are heard", with(func(d *decisions) {
			d.doubtful = func(*driver.Claim, []vote, int64, int64) bool { return false }
		})},
		{"doubt stays where most agree", "all nodes are heard", with(func(d *decisions) { d.doubtful = m.mayHold })},
		{"what holds elsewhere is taken out", "what is taken out", with(func(d *decisions) {
			d.goes = func(c *driver.Claim, v vote, least, held int64, _ bool) bool { return m.goes(c, v, least, held, true) }
		})},
		{"what cannot hold stays where it was", "what is taken out", with(func(d *decisions) {
			d.goes = func(c *driver.Claim, v vote, least, held int64, _ bool) bool { return m.goes(c, v, least, held, false) }
		})},
		{"a lost answer leaves nothing to take out", "what is taken out", with(func(d *decisions) {
			d.goes = func(c *driver.Claim, v vote, least, held int64, cannotHold bool) bool {
				return !v.unknown() && m.goes(c, v, least, held, cannotHold)
			}
		})},
		{"nodes whose answer is lost are not asked to let go", "what is taken out", with(func(d *decisions) {
			d.remains = func(votes []vote) (all, granted []int) { _, granted = remains(votes); return granted, granted }
		})},
		{"what may hold is gone", "a claim that may hold is not", with(func(d *decisions) {
			d.still = func(votes []vote, cause error) error {
				if n := sum(votes); cause == nil && n.granted < m.need {
					return driver.ErrGone
				}
				return m.still(votes, cause)
			}
		})},
		{"what is not clean is refused", "a claim waits where", with(func(d *decisions) {
			d.missed = func(c *driver.Claim, votes []vote, cause error, _ bool) (driver.Place, error) {
				return m.missed(c, votes, cause, true)
			}
		})},
		{"what left nothing behind is unknown", "a claim waits where", with(func(d *decisions) {
			d.missed = func(c *driver.Claim, votes []vote, cause error, _ bool) (driver.Place, error) {
				return m.missed(c, votes, cause, false)
			}
		})},
		{"a try waits", "a claim waits where", with(func(d *decisions) {
			d.missed = func(c *driver.Claim, votes []vote, cause error, clean bool) (driver.Place, error) {
				own := *c
				own.Try = false
				return m.missed(&own, votes, cause, clean)
			}
		})},
		{"one node lets a claim leave", "a claim that leaves", with(func(d *decisions) { d.departed = half.departed })},
		{"who leaves waits for all who lack the claim", "a claim that leaves", with(func(d *decisions) {
			d.departed = func(votes []vote) bool { left, _ := departures(votes); return left >= m.need }
		})},
		{"who does not have a claim let it go", "a claim that leaves", with(func(d *decisions) {
			d.parting = func(votes []vote) error {
				if left, gone := departures(votes); left+gone >= m.need {
					return nil
				}
				return m.parting(votes)
			}
		})},
		{"one node names who stands in the way", "who stands in the way", with(func(d *decisions) { d.blocker = half.blocker })},
		{"nobody stands in the way", "who stands in the way", with(func(d *decisions) {
			d.blocker = func([]vote) *driver.ClaimInfo { return nil }
		})},
		{"the older one stands in the way", "who stands in the way", with(func(d *decisions) { d.missed = free.missed })},
	} {
		i := slices.IndexFunc(rules, func(r rule) bool { return strings.HasPrefix(r.says, mistake.rule) })
		where := mistake.by.breaks(&rules[i], all)
		if where == "" {
			t.Errorf("nobody finds that %s: %s", mistake.what, rules[i].says)
		}
		t.Logf("%s: for %s", mistake.what, where)
	}
}
