package drivertest

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest/internal/judge"
)

// Concurrent drives several clients of one store at once, each with several claims, while requests and answers are lost, and
// requests arrive late, some of them after the claim's lease, or twice, and while claims run out, are kept, are removed by
// hand, or by a later run of their job. It then looks for an order of the calls on each name in which [driver.Queue] gives
// the same answers. A request whose outcome its caller does not know may have been applied at any time after it was sent,
// or never. It fails if there is no such order, if claims are believed to hold that exclude each other, if tickets of
// holders fall, or if a name is not free when all claims have left.
//
// The calls of one claim come one after the other. A round is a few dozen calls on two names. The same seed makes the same
// clients and the same choices, but not the same order of the calls, which depends on the store. The failure names the seed
// and lists all calls on the name until the impossible answer; then the same for fewer steps that fail too. Luck decides
// which events a round has: more rounds follow until all events were seen. After five minutes Concurrent fails and names
// the missing ones.
//
// If the store has no order, or shows claims halfway, places are not compared.
func Concurrent(t testing.TB, s Store, seed uint64, rounds int) {
	t.Helper()
	concurrent(t, s, seed, rounds, patience)
}

// concurrent is Concurrent with another bound than five minutes.
func concurrent(t testing.TB, s Store, seed uint64, rounds int, patience time.Duration) {
	t.Helper()
	var (
		crowds = []*crowd{newCrowd(t, s, seed, 0), newCrowd(t, s, seed, 1)}
		faults = make([]string, len(crowds))
		work   sync.WaitGroup
		began  = time.Now()
	)
	for i, c := range crowds {
		work.Go(func() {
			for round := i; round < rounds || len(missing(crowds)) > 0 && time.Since(began) < patience; round += len(crowds) {
				c.lasting = c.brief <= time.Second || round < len(crowds) || round >= rounds
				if faults[i] = c.round(round, nil); faults[i] != "" {
					faults[i] += c.smaller(round, c.ends/2)
					return
				}
			}
		})
	}
	work.Wait()
	for _, fault := range faults {
		if fault != "" {
			t.Fatalf("seed %d, %s", seed, fault)
		}
	}
	t.Logf("met: %v and %v", crowds[0].hits, crowds[1].hits)
	if list := missing(crowds); len(list) > 0 {
		t.Errorf("seed %d: in %v it did not happen that %s", seed, patience, strings.Join(list, ", nor that "))
	}
}

// missing returns the events that some crowds have not seen yet.
func missing(crowds []*crowd) []string {
	return slices.DeleteFunc(crowds[0].wanted(), func(what string) bool {
		return slices.ContainsFunc(crowds, func(c *crowd) bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.hits[what] > 0
		})
	})
}

// The sizes of a round.
const (
	crowdClients = 3
	crowdWorkers = 2 // of each client, each with one claim at a time
	crowdSteps   = 12
)

// A crowd is some clients of one store, and one more that only lists and never has trouble on its way.
type crowd struct {
	store   Store
	traits  driver.Traits
	seed    uint64
	tag     string
	start   time.Time
	clients []*member
	witness driver.Driver
	lister  driver.Lister
	breaker driver.Breaker
	brief   time.Duration // a lease that runs out, and how long a claim is kept
	lasting bool          // there is time for brief leases
	unheard time.Duration // how long a caller waits for an answer that does not come
	ends    time.Duration // bound of the time from the last trouble until all claims are over

	mu     sync.Mutex // guards the fields below
	calls  []*judge.Call
	hits   map[string]int // how often each event happened
	rounds int            // rounds that were begun, repeated ones included
}

// A member is one client of a crowd. Its workers share its way.
type member struct {
	*Detour
	label string
	mu    sync.Mutex // held while its way has trouble
	held  int        // steps after which its late requests arrive; 0 means that there are none
}

func newCrowd(t testing.TB, s Store, seed uint64, number int) *crowd {
	t.Helper()
	c := &crowd{store: s, seed: seed, tag: rand.Text(), start: time.Now(), unheard: heldUp / 2, ends: 2 * time.Minute,
		brief: heldUp / 2, hits: map[string]int{}}
	if s.Detour == nil { // there is no network, so no client has to connect again
		c.unheard, c.ends, c.brief = time.Millisecond, 5*time.Second, 20*time.Millisecond
	}
	c.witness = s.Open(t)
	t.Cleanup(func() { c.witness.Close() })
	c.lister, _ = c.witness.(driver.Lister)
	c.breaker, _ = c.witness.(driver.Breaker)
	c.traits = c.witness.Traits()
	c.brief = max(c.brief, c.traits.MinTTL)
	for i := range crowdClients {
		c.clients = append(c.clients, &member{Detour: s.detour(t), label: fmt.Sprintf("client %d.%d", number, i)})
	}
	return c
}

// A scene is one name of a round, and the claims that may be made on it.
type scene struct {
	name     string
	capacity int64
	weights  []int64
}

// isBrief reports that the lease of a claim may run out.
func (c *crowd) isBrief(claim *driver.Claim) bool { return claim.TTL == c.brief }

// round lets the clients make random calls on two names, or only the given steps of them. Then it ends all claims, and
// returns the mistakes; empty if there are none.
func (c *crowd) round(number int, only []int) string {
	c.calls = nil
	c.rounds++
	random := mathrand.New(mathrand.NewPCG(c.seed, uint64(number)))
	var scenes []*scene
	for i := range 2 {
		s := &scene{name: fmt.Sprintf("drivertest/concurrent/%s/%d/%d", c.tag, c.rounds, i), capacity: driver.All}
		s.weights = []int64{driver.All}
		switch n := random.IntN(3); {
		case n == 1 && c.traits.Shared:
			s.weights = []int64{driver.All, 1, 1}
		case n == 2 && c.traits.Permits:
			s.capacity, s.weights = 3, []int64{1, 2, 3}
		}
		scenes = append(scenes, s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var (
		work    sync.WaitGroup
		workers []*worker
	)
	for i, m := range c.clients {
		for j := range crowdWorkers {
			w := &worker{crowd: c, member: m, ctx: ctx, scenes: scenes, label: fmt.Sprintf("%d.%d.%d", number, i, j),
				round: number, number: i*crowdWorkers + j, only: only, keeps: map[string]time.Duration{}}
			workers = append(workers, w)
			work.Go(w.run)
		}
	}
	work.Wait()
	left := c.clear(ctx, scenes, workers)
	for _, s := range scenes {
		h := c.of(s)
		c.met(h)
		if fault := h.Fault(); fault != "" {
			return fmt.Sprintf("round %d: %s", number, fault)
		}
	}
	if left != "" {
		return fmt.Sprintf("round %d: %s%v%v", number, left, c.of(scenes[0]), c.of(scenes[1]))
	}
	return ""
}

// clear lets everything arrive, and removes claims until both names are free.
func (c *crowd) clear(ctx context.Context, scenes []*scene, workers []*worker) string {
	for _, m := range c.clients {
		m.Pass()
		m.Arrive()
	}
	ctx, cancel := context.WithTimeout(ctx, c.ends)
	defer cancel()
	for {
		out := true
		for _, w := range workers {
			out = w.leaveAll(ctx) && out
		}
		for _, s := range scenes {
			out = out && c.free(ctx, s)
		}
		if out {
			return ""
		}
		if !poll(ctx) {
			return fmt.Sprintf("not within %v: all claims have left, and a new one holds each name", c.ends)
		}
	}
}

// free reports that a new claim for all of a name holds, and leaves nothing behind.
func (c *crowd) free(ctx context.Context, s *scene) bool {
	claim := &driver.Claim{
		Name: s.name, ID: rand.Text(), Client: "drivertest-" + c.tag, Weight: s.capacity, Capacity: s.capacity,
		TTL: 2 * time.Minute, Wait: 2 * time.Minute, Record: "witness", Try: true,
	}
	p, err := c.witness.Enter(ctx, claim)
	return err == nil && p.Holds && c.witness.Leave(ctx, &driver.Release{Claim: claim}) == nil
}

// did records a call for the judge.
func (c *crowd) did(one *judge.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, one)
}

// of returns the calls on one name.
func (c *crowd) of(s *scene) *judge.History {
	h := &judge.History{Name: s.name, Capacity: s.capacity, Traits: c.traits, Halfway: c.store.Halfway}
	for _, one := range c.calls {
		if one.Claim.Name == s.name {
			h.Calls = append(h.Calls, one)
		}
	}
	slices.SortStableFunc(h.Calls, func(a, b *judge.Call) int { return int(a.Began - b.Began) })
	return h
}
