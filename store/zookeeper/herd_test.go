package zookeeper_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// TestNoHerd counts the packets of the server while a lock goes from hand to hand. Many waiters cause as many as few.
func TestNoHerd(t *testing.T) {
	t.Parallel()
	for name, shape := range map[string]func(c *driver.Claim){
		"exclusive": func(*driver.Claim) {},
		"permits":   func(c *driver.Claim) { c.Weight, c.Capacity = 1, 3 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			few, many := packets(t, 14, shape), packets(t, 60, shape)
			if t.Logf("packets for each hand-over: %.1f with few, %.1f with many", few, many); many > few+3 {
				t.Errorf("a hand-over takes %.1f packets with 60 that wait, and %.1f with 14; want the same", many, few)
			}
		})
	}
}

// A claim that needs two others to go is woken by each of them, without a look in between.
func TestWokenTwice(t *testing.T) {
	t.Parallel()
	d := open(t, "zk://"+servertest.ZooKeeper(t).Addr)
	for _, order := range [][]int{{0, 1}, {1, 0}, {0, 2}, {2, 0}, {1, 2}, {2, 1}} {
		var holders []*driver.Claim
		for range 3 {
			c := claim("twice")
			c.Weight, c.Capacity = 1, 3
			enter(t, d, c, true)
			holders = append(holders, c)
		}
		waiter := claim("twice")
		waiter.Weight, waiter.Capacity = 2, 3
		enter(t, d, waiter, false)
		leave(t, d, holders[order[0]])
		enter(t, d, waiter, false)
		woken := make(chan error, 1)
		go func() {
			_, err := d.Await(t.Context(), waiter)
			woken <- err
		}()
		leave(t, d, holders[order[1]])
		select {
		case err := <-woken:
			if err != nil {
				t.Errorf("order %v: %v", order, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("order %v: the claim that waits was not woken", order)
		}
		enter(t, d, waiter, true)
		leave(t, d, waiter)
		leave(t, d, holders[3-order[0]-order[1]])
	}
}

// packets returns how many packets a hand-over takes with this number of waiting claims of three clients.
func packets(t *testing.T, waiting int, shape func(c *driver.Claim)) float64 {
	t.Helper()
	s := servertest.ZooKeeper(t)
	var drivers []driver.Driver
	for range 3 {
		drivers = append(drivers, open(t, "zk://"+s.Addr+"?session=60s"))
	}
	var all sync.WaitGroup
	held := make(chan int, waiting)
	claims := make([]*driver.Claim, waiting)
	var looked atomic.Int64 // how many claims have looked again, as a claim does after a long wait behind several
	for i := range claims {
		claims[i] = claim("herd")
		shape(claims[i])
		p, err := drivers[i%3].Enter(t.Context(), claims[i])
		if err != nil {
			t.Fatalf("enter: %v", err)
		}
		if p.Holds {
			held <- i
			continue
		}
		all.Go(func() {
			if p.Blocker.Ticket == 0 {
				woken(t, drivers[i%3], claims[i])
			}
			enter(t, drivers[i%3], claims[i], false) // before anybody leaves: its packets are not counted
			looked.Add(1)
			_, err := drivers[i%3].Await(t.Context(), claims[i])
			if err == nil {
				_, err = turn(t.Context(), drivers[i%3], claims[i])
			}
			if err != nil {
				t.Errorf("claim %d: %v", i, err)
			}
			held <- i
		})
	}
	servertest.Until(t, "those who wait have looked", func() bool { return looked.Load() == int64(waiting-len(held)) })
	const first, hands = 3, 8
	for range first { // so that requests under way are over
		leaveNext(t, drivers, claims, held)
	}
	before := traffic(t, s)
	for range hands {
		leaveNext(t, drivers, claims, held)
	}
	after := traffic(t, s)
	for range waiting - hands - first {
		leaveNext(t, drivers, claims, held)
	}
	all.Wait()
	return float64(after-before) / hands
}

func leaveNext(t *testing.T, drivers []driver.Driver, claims []*driver.Claim, held chan int) {
	t.Helper()
	i := <-held
	err := drivers[i%3].Leave(t.Context(), &driver.Release{Claim: claims[i]})
	if err != nil && !errors.Is(err, driver.ErrGone) {
		t.Errorf("leave: %v", err)
	}
}

// A free lock takes three requests: two together, for the node and for the list, and one that deletes the node. To leave out
// the list when no other client came of late would gain nothing over a link.
func TestRequestsOfALoneClaim(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	for _, layout := range []string{"mutex", "rw", "latch"} {
		d := open(t, "zk://"+s.Addr+"?session=60s&layout="+layout)
		const rounds = 20
		round := func() {
			c := claim(layout)
			enter(t, d, c, true)
			leave(t, d, c)
		}
		round() // makes the parents
		before := traffic(t, s)
		for range rounds {
			round()
		}
		// Three requests and their answers. The rest is for the questions about the count, and for signs of life.
		if sum, most := traffic(t, s)-before, 6*rounds+rounds/2; sum > most {
			t.Errorf("layout %s: %d times take %d packets; want at most %d", layout, rounds, sum, most)
		}
	}
}

// traffic returns how many packets a server has received and sent.
func traffic(t *testing.T, s *servertest.Server) int {
	t.Helper()
	status, sum := "", 0
	servertest.Until(t, "the server tells its status", func() bool {
		status = s.ZooKeeperStatus()
		return status != ""
	})
	for line := range strings.Lines(status) {
		for _, field := range []string{"Received: ", "Sent: "} {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), field); ok {
				n, err := strconv.Atoi(text)
				if err != nil {
					t.Fatal(err)
				}
				sum += n
			}
		}
	}
	return sum
}
