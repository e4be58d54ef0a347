package line

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// The answer to a downgrade may be lost, before or after the server applied the downgrade. Then the claim is renewed,
// amended again, or leaves. The client finds it by its old node or its new one, leaves neither behind, and takes neither for
// a stray.
func TestDowngradeOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	for name, applied := range map[string]bool{"applied": true, "not applied": false} {
		for _, then := range []string{"leave", "renew", "amend"} {
			t.Run(name+", "+then, func(t *testing.T) {
				t.Parallel()
				s := newStraying(t)
				c := s.claim("holder")
				if !s.enter(s.d, c) {
					t.Fatal("the claim waits; want it to hold")
				}
				s.loseDowngrade(c, applied)
				renews := func() bool { return s.d.Renew(t.Context(), []*driver.Claim{c})[0].Err == nil }
				switch then {
				case "renew":
					servertest.Until(t, "the claim is renewed", renews)
				case "amend":
					c.Amend = &driver.Amendment{Weight: 1}
					servertest.Until(t, "the claim is amended", renews)
					c.Amend, c.Weight = nil, 1
					reader := s.claim("reader")
					reader.Weight = 1
					if ticket := c.Ticket; !s.enter(s.d, c) || c.Ticket != ticket || !s.enter(s.other, reader) {
						t.Errorf("the reader has ticket %d, or keeps another out; want %d, beside another reader", c.Ticket, ticket)
					}
					if err := s.other.Leave(t.Context(), &driver.Release{Claim: reader}); err != nil {
						t.Errorf("leave: %v", err)
					}
				}
				servertest.Until(t, "the claim leaves", func() bool {
					err := s.d.Leave(t.Context(), &driver.Release{Claim: c})
					return err == nil || driver.OutcomeOf(err) == driver.OutcomeRefused
				})
				s.until("nothing is left")
			})
		}
	}
}

// loseDowngrade replaces a claim's node, and the request or its answer is lost.
func (s *straying) loseDowngrade(c *driver.Claim, applied bool) {
	s.Helper()
	lc := s.d.line.LocalClaimOf(c.ID)
	held := znode.NewData(c)
	change := s.d.line.replacement(lc, view{name: lc.node.name}, move{data: held, weight: 1})
	s.proxy.Freeze(!applied, applied)
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Second)
	defer cancel()
	if err := s.d.zk.Do(ctx, lc.Session, change); err == nil || driver.OutcomeOf(err) != driver.OutcomeUnknown {
		s.Fatalf("downgrade without an answer = %v; want an unknown outcome", err)
	}
	s.proxy.Drop()
	s.proxy.Freeze(false, false)
}

// An endingAt is a context that has ended when it is asked for the nth time, and from then on.
type endingAt struct {
	context.Context
	left atomic.Int32
}

func (e *endingAt) Err() error {
	if e.left.Add(-1) <= 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// A downgrade may end before any of its requests. The claim then goes on as it was: it is renewed, and leaves.
func TestDowngradeThatIsNotSent(t *testing.T) {
	t.Parallel()
	s := newStraying(t)
	for at := range int32(6) {
		c := s.claim(fmt.Sprint("holder", at))
		if !s.enter(s.d, c) {
			t.Fatal("the claim waits; want it to hold")
		}
		c.Amend = &driver.Amendment{Weight: 1}
		ending := &endingAt{Context: t.Context()}
		ending.left.Store(at)
		was := s.d.Renew(ending, []*driver.Claim{c})[0].Err
		c.Amend = nil
		within, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := s.d.Renew(within, []*driver.Claim{c})[0].Err; err != nil {
			t.Errorf("a renewal after %v = %v; want none", was, err)
		}
		if err := s.d.Leave(within, &driver.Release{Claim: c}); err != nil {
			t.Errorf("leave after %v = %v; want none", was, err)
		}
		cancel()
	}
}
