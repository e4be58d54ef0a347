package zookeeper_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
)

// A gauge counts the permits that are held, as far as their holders say, and knows the count.
type gauge struct {
	t *testing.T

	mu      sync.Mutex
	held    int
	count   int
	changes int // how often a change has begun or ended; odd while one is under way
}

// begin is called before a lock is asked for, and returns what took is to know.
func (g *gauge) begin() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changes
}

// took notes permits that are held. If the count did not change since they were asked for, there must have been room.
func (g *gauge) took(n, since int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held += n; g.changes == since && since%2 == 0 && g.held > g.count {
		g.t.Errorf("%d permits are held right after %d of them were got, of %d", g.held, n, g.count)
	}
}

func (g *gauge) gives(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held -= n
}

// change changes the count, which is known once that was answered.
func (g *gauge) change(c *stile.Client, n int) {
	g.mu.Lock()
	g.changes++
	g.mu.Unlock()
	if err := c.SetPermits(g.t.Context(), "n", n, "a test"); err != nil {
		g.t.Errorf("set permits: %v", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count, g.changes = n, g.changes+1
}

// Clients get and release permits while the count changes and connections are cut. Nobody gets one beyond the count, nobody
// loses one by a change, and nobody is forgotten.
func TestCountChangesUnderLoad(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g := &gauge{t: t}
	operator := client(t, "zk://"+s.Addr+"?layout=semaphore")
	g.change(operator, 2)
	var clients []*stile.Client
	p, url := behind(t, s, "layout=semaphore")
	for _, url := range []string{url, "zk://" + s.Addr + "?layout=semaphore", "zk://" + s.Addr + "?layout=semaphore"} {
		clients = append(clients, client(t, url))
	}
	const workers, rounds, most = 9, 6, 4
	var work sync.WaitGroup
	for w := range workers {
		r := rand.New(rand.NewPCG(seed, uint64(w)))
		c := clients[w%len(clients)]
		work.Go(func() {
			for range rounds {
				n := 1 + r.IntN(2)
				since := g.begin()
				lease, err := c.Permit("n", n, 0).Lock(t.Context())
				if err != nil {
					t.Errorf("lock: %v", err)
					return
				}
				g.took(n, since)
				if _, err := c.Show(t.Context(), "n"); err != nil && !errors.Is(err, stile.ErrUnreachable) { // a holder at work
					t.Errorf("show: %v", err)
				}
				if err := lease.Check(); err != nil {
					t.Errorf("check: %v", err)
				}
				g.gives(n)
				if err := lease.Unlock(); err != nil {
					t.Errorf("unlock: %v", err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		work.Wait()
		close(done)
	}()
	r := rand.New(rand.NewPCG(seed, workers))
	late := time.After(time.Minute)
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		case <-late:
			t.Fatalf("somebody waits though the count is %d", most)
		case <-time.After(time.Duration(r.IntN(30)) * time.Millisecond):
		}
		if i > 60 { // the last change leaves room for all
			continue
		}
		n := r.IntN(most + 1)
		if i == 60 {
			n = most
		}
		if g.change(operator, n); i%15 == 7 {
			p.Drop()
		}
	}
}
