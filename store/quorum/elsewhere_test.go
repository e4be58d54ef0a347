package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// heldElsewhere makes client a hold a claim on the last three of five nodes; the first node has another claim. It returns a,
// another client b with its members, and the claim.
func heldElsewhere(t *testing.T) (a, b driver.Driver, members []*member, c *driver.Claim) {
	list := servers(5)
	a, others := open(t, list, nil)
	c = claim("held", "claim")
	for _, m := range others[:2] {
		m.SetLink(memory.Refused)
	}
	holds(t, list[0].store.Driver(), claim("held", "other"))
	holds(t, a, c)
	synctest.Wait()
	for _, s := range list { // so that the second client asks for later tickets, however quick this machine is
		s.mu.Lock()
		s.wrong = 100 * time.Millisecond
		s.mu.Unlock()
	}
	b, members = open(t, list, nil)
	return a, b, members, c
}

// A claim that holds by another client is entered again, and some nodes do not answer. It stays on the nodes that show it.
func TestEnterTakesNothingOutThatHoldsElsewhere(t *testing.T) {
	for late := range 3 {
		synctest.Test(t, func(t *testing.T) {
			a, b, members, c := heldElsewhere(t)
			defer func() {
				a.Close()
				b.Close()
			}()
			for i := range 2 {
				members[2+(late+i)%3].Inject(memory.Fault{Verb: memory.Enter, Before: time.Second})
			}
			again := claim(c.Name, c.ID)
			p, err := b.Enter(t.Context(), again)
			if err != nil || !p.Holds || p.Ticket != c.Ticket {
				t.Errorf("enter again = %+v, %v; want it to hold with ticket %d", p, err, c.Ticket)
			}
			standsStill(t, a, members, c)
		})
	}
}

// The same if the caller gives up early, whatever the nodes answer later.
func TestEndedEnterTakesNothingOutThatHoldsElsewhere(t *testing.T) {
	for prompt := range 6 {
		synctest.Test(t, func(t *testing.T) {
			a, b, members, c := heldElsewhere(t)
			defer func() {
				a.Close()
				b.Close()
			}()
			for i, m := range members {
				if i != prompt {
					m.Inject(memory.Fault{Verb: memory.Enter, Before: time.Second, Late: true})
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if p, err := b.Enter(ctx, claim(c.Name, c.ID)); err == nil || driver.NotApplied(err) {
				t.Errorf("enter = %+v, %v; want its outcome unknown", p, err)
			}
			standsStill(t, a, members, c)
		})
	}
}

// standsStill fails unless a claim stands on a majority of the nodes once all requests have arrived.
func standsStill(t *testing.T, d driver.Driver, members []*member, c *driver.Claim) {
	t.Helper()
	pass(3 * time.Second)
	stands := 0
	for _, m := range members[2:] {
		if m.Renew(t.Context(), []*driver.Claim{c})[0].Err == nil {
			stands++
		}
	}
	if r := d.Renew(t.Context(), []*driver.Claim{c})[0]; r.Err != nil || stands != 3 {
		t.Errorf("renewal where it holds = %v, on %d of the three nodes; want nil, on all", r.Err, stands)
	}
}
