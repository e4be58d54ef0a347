package quorum_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/history"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/quorum"
)

// Several clients lock two names on three or five members. Each loses its way to some members, requests and answers are lost
// or late, and members up to a minority are restarted without their data. No two claims hold a name at once, and tickets
// rise.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { simulate(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

const (
	simulated    = 20 * time.Second // of virtual time
	simulators   = 4                // clients
	simulatedTTL = time.Second      // the lease
)

// A simulation is some clients of the same servers, and what they believed.
type simulation struct {
	start   time.Time
	servers []*server
	members [][]*member // of each client

	mu    sync.Mutex
	holds []*history.Hold
}

func simulate(t *testing.T, r *rand.Rand) {
	s := &simulation{start: time.Now(), servers: servers(3 + 2*r.IntN(2))}
	var all sync.WaitGroup
	for i := range simulators {
		// Members count the time until they vote again by a clock that is not the simulation's: this time does not end in
		// the run.
		d, members := open(t, s.servers, &quorum.Options{MaxTTL: time.Hour, Timeout: simulatedTTL / 4})
		s.members = append(s.members, members)
		own := rand.New(rand.NewPCG(r.Uint64(), 1))
		all.Go(func() { s.work(t, own, d, i) })
	}
	own := rand.New(rand.NewPCG(r.Uint64(), 1))
	all.Go(func() { s.disturb(own) })
	all.Wait()
	capacity := map[string]int64{"name 0": driver.All, "name 1": driver.All}
	for name := range capacity {
		if !slices.ContainsFunc(s.holds, func(h *history.Hold) bool { return h.Name == name }) {
			t.Errorf("nobody ever held %s, so this proves nothing", name)
		}
	}
	for _, f := range append(history.Overlaps(s.holds, capacity), history.Falls(s.holds, capacity)...) {
		t.Errorf("on %d members: %s", len(s.servers), f.Text)
	}
}

func (s *simulation) over() bool { return time.Since(s.start) > simulated }

// work lets a client enter one claim after another.
func (s *simulation) work(t *testing.T, r *rand.Rand, d driver.Driver, client int) {
	for i := 0; !s.over(); i++ {
		c := claim(fmt.Sprint("name ", r.IntN(2)), fmt.Sprintf("c%d-%d", client, i))
		c.Client, c.TTL, c.Wait = fmt.Sprint("client ", client), simulatedTTL, simulatedTTL
		ctx, cancel := context.WithTimeout(t.Context(), 2*simulatedTTL)
		sent := time.Now()
		if p, err := d.Enter(ctx, c); err == nil && p.Holds {
			c.Ticket = p.Ticket
			s.hold(ctx, r, d, c, client, sent.Add(p.TTL))
		}
		pass(time.Microsecond) // the effects of its last look are over
		_ = d.Leave(ctx, &driver.Release{Claim: c})
		cancel()
		pass(rand.N(50 * time.Millisecond))
	}
}

// hold believes that a claim holds for a while, which may be longer than its lease, or than one renewal.
func (s *simulation) hold(ctx context.Context, r *rand.Rand, d driver.Driver, c *driver.Claim, client int, until time.Time) {
	h := &history.Hold{Worker: client, Name: c.Name, Weight: c.Weight, Token: c.Ticket, Begin: time.Since(s.start)}
	h.End = h.Begin
	look := func() bool {
		if !time.Now().Before(until) {
			return false
		}
		h.End = time.Since(s.start)
		return true
	}
	for end := time.Now().Add(time.Duration(r.Int64N(int64(2 * simulatedTTL)))); look() && time.Now().Before(end); {
		pass(20 * time.Millisecond)
		if sent := time.Now(); r.IntN(10) == 0 {
			if a := d.Renew(ctx, []*driver.Claim{c})[0]; a.Err == nil {
				until = sent.Add(a.TTL)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds = append(s.holds, h)
}

// disturb makes trouble for the clients, and for a minority of the servers.
func (s *simulation) disturb(r *rand.Rand) {
	forgetful := r.Perm(len(s.servers))[:(len(s.servers)-1)/2]
	for !s.over() {
		pass(time.Duration(r.Int64N(int64(100 * time.Millisecond))))
		if len(forgetful) > 0 && r.IntN(100) == 0 {
			s.servers[forgetful[0]].restart(false)
			forgetful = forgetful[1:]
			continue
		}
		members := s.members[r.IntN(len(s.members))]
		m := members[r.IntN(len(members))].now()
		switch r.IntN(5) {
		case 0, 1:
			m.SetLink([]memory.Link{memory.Refused, memory.Silent}[r.IntN(2)])
		case 2:
			m.Inject([]memory.Fault{
				{Drop: true}, {Lose: true}, {Before: simulatedTTL / 3}, {Before: simulatedTTL / 2, Late: true},
				{After: simulatedTTL / 3},
			}[r.IntN(5)])
		default:
			m.Heal()
		}
	}
	for _, members := range s.members {
		for _, m := range members {
			m.now().Heal()
		}
	}
}
