package redis_test

import (
	"errors"
	"fmt"
	"github.com/stilelock/stile/internal/awake"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

func TestRedlockRefuses(t *testing.T) {
	t.Parallel()
	servers, _ := redlockOf(t, 3, durable...)
	again := servertest.NewProxy(t, servers[0].Addr)
	replica := servertest.Redis(t, "--replicaof", "127.0.0.1", fmt.Sprint(servers[0].Ports[0]))
	a, b, c := servers[0].Addr, servers[1].Addr, servers[2].Addr
	for _, test := range []struct{ hosts, want string }{
		{"", "needs its hosts"},
		{a, "at least 3 nodes, not 1"},
		{a + "," + b, "at least 3 nodes, not 2"},
		{a + "," + b + "," + c + "," + again.Addr, "an odd number of nodes, not 4"},
		{a + "," + b + "," + a, "node " + a + " is named twice"},
		{a + "," + b + "," + again.Addr, "is the same server as node"},
		{a + "," + b + "," + replica.Addr, "a replica"},
		{a + "," + b + "," + c + "?max_ttl=10ms", "parameter max_ttl must be from 100ms to 24h0m0s"},
		{a + "," + b + "," + c + "?layout=queue", `unknown parameter "layout"`},
	} {
		d, err := driver.Open(soon(t), "redlock://"+test.hosts)
		if err == nil {
			d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || !driver.NotApplied(err) || driver.IsUnreachable(err) {
			t.Errorf("open %q = %v; want it refused, with %q", test.hosts, err, test.want)
		}
	}
}

// A waiter sees the record of the holder, and not of a claim that is on one server only.
func TestRedlockShowsTheHolder(t *testing.T) {
	t.Parallel()
	servers, url := redlockOf(t, 3, durable...)
	d := openRedlock(t, url)
	left := openRedlock(t, "redis://"+servers[0].Addr+"?layout=setnx")
	old, holder, waiter := redlockClaim("shown", "old"), redlockClaim("shown", "holder"), redlockClaim("shown", "waiter")
	holds(t, left, old)
	holds(t, d, holder) // on the other two
	servers[2].Pause()
	defer servers[2].Resume()
	p, err := d.Enter(soon(t), waiter)
	if err != nil || p.Holds || p.Blocker.Record != holder.Record {
		t.Errorf("enter = %+v, %v; want it to wait for %s", p, err, holder.Record)
	}
}

func TestRedlockMajorityDown(t *testing.T) {
	t.Parallel()
	servers, url := redlockOf(t, 5, durable...)
	d := openRedlock(t, url)
	for _, s := range servers[:3] {
		s.Kill()
	}
	c := redlockClaim("down", "x")
	_, err := try(t, d, c)
	if !driver.IsUnreachable(err) {
		t.Fatalf("enter = %v; want it unreachable", err)
	}
	_, err = try(t, d, c) // the first call may not know whether a request arrived
	few := "2 of 5 nodes take part, and a majority is 3: node " + servers[0].Addr
	if !driver.IsUnreachable(err) || !driver.NotApplied(err) || !strings.Contains(err.Error(), few) {
		t.Errorf("enter = %v; want it refused and clean, with how many answer and which does not", err)
	}
	if n := on(servers[3:], "down"); n != 0 {
		t.Errorf("%d servers have the key; want it on none", n)
	}
	if again, err := driver.Open(soon(t), url); !driver.IsUnreachable(err) {
		t.Errorf("open = %v, %v; want it unreachable", again, err)
	}
	for _, s := range servers[:3] {
		s.Restart()
	}
	servertest.Until(t, "the lock is had when the servers are back", func() bool {
		p, err := try(t, d, c)
		return err == nil && p.Holds
	})
}

func TestRedlockTwoOfFiveDown(t *testing.T) {
	t.Parallel()
	servers, url := redlockOf(t, 5, durable...)
	d := openRedlock(t, url)
	before := redlockClaim("before", "x")
	holds(t, d, before)
	servers[1].Kill()
	servers[4].Kill()
	start := time.Now()
	if a := d.Renew(soon(t), []*driver.Claim{before})[0]; a.Err != nil || a.TTL+time.Since(start) <= 9*time.Second {
		t.Errorf("renewal = %+v; want the whole lease", a)
	}
	leaves(t, d, before)
	late := openRedlock(t, url)
	for i := range 20 {
		c := redlockClaim("since", fmt.Sprint("c", i))
		holds(t, late, c)
		if p, err := try(t, d, redlockClaim("since", "other")); err != nil || p.Holds {
			t.Fatalf("enter of another = %+v, %v; want it to wait", p, err)
		}
		leaves(t, late, c)
	}
}

// One silent server does not delay a lock.
func TestRedlockSlowNode(t *testing.T) {
	t.Parallel()
	servers, _ := redlockOf(t, 3, durable...)
	proxies, url := proxied(t, servers)
	const timeout = 20 * time.Second
	d := openRedlock(t, url+"?timeout="+timeout.String())
	proxies[1].Freeze(true, true)
	var most time.Duration
	for i := range 20 {
		c := redlockClaim("slow", fmt.Sprint("c", i))
		start := time.Now()
		holds(t, d, c)
		if a := d.Renew(soon(t), []*driver.Claim{c})[0]; a.Err != nil {
			t.Fatalf("renewal = %v; want nil", a.Err)
		}
		leaves(t, d, c)
		most = max(most, time.Since(start))
	}
	if most > timeout/2 {
		t.Errorf("a lock took %v; want it to wait for nobody, and for no timeout of %v", most, timeout)
	}
}

// Two clients each see three of five servers, and share one. That server decides, whichever client gets its answers.
func TestRedlockAsymmetricPartition(t *testing.T) {
	t.Parallel()
	servers, _ := redlockOf(t, 5, durable...)
	ours, ourURL := proxied(t, servers)
	theirs, theirURL := proxied(t, servers)
	a, b := openRedlock(t, ourURL+"?timeout=500ms"), openRedlock(t, theirURL+"?timeout=500ms")
	for i := range servers {
		ours[i].Freeze(i > 2, i > 2)
		theirs[i].Freeze(false, i < 2) // requests arrive, and are not answered
	}
	for round := range 3 {
		one, other := redlockClaim("split", fmt.Sprint("a", round)), redlockClaim("split", fmt.Sprint("b", round))
		answers := make(chan bool, 2)
		for d, c := range map[driver.Driver]*driver.Claim{a: one, b: other} {
			go func() {
				p, err := d.Enter(soon(t), c)
				answers <- err == nil && p.Holds
			}()
		}
		if x, y := <-answers, <-answers; x && y {
			t.Fatal("both hold; want one at most")
		}
		for d, c := range map[driver.Driver]*driver.Claim{a: one, b: other} {
			_ = d.Leave(soon(t), &driver.Release{Claim: c}) // whether or not it held
		}
	}
	for i := range servers {
		ours[i].Mend()
		theirs[i].Mend()
	}
	servertest.Until(t, "the lock is had once all is mended", func() bool {
		p, err := try(t, a, redlockClaim("split", "after"))
		return err == nil && p.Holds
	})
}

// A server that restarts without its data does not vote until the longest lease is over, so it cannot give a second claim a
// majority.
func TestRedlockForgetfulNode(t *testing.T) {
	t.Parallel()
	servers, url := redlockOf(t, 3)
	proxies, partial := proxied(t, servers)
	const longest = 4 * time.Second
	d, other := openRedlock(t, partial+"?max_ttl=4s"), openRedlock(t, url+"?max_ttl=4s")
	c := redlockClaim("forgotten", "holder")
	c.TTL = longest
	_, err := try(t, d, c)
	const young = "started a short while ago and may have forgotten claims (appendonly no)"
	if !driver.IsUnreachable(err) || !strings.Contains(err.Error(), young) {
		t.Errorf("enter on servers just started = %v; want it refused, with why", err)
	}
	warm := redlockClaim("warm", "x")
	warm.TTL = time.Second
	for _, client := range []driver.Driver{other, d} {
		servertest.Until(t, "the servers are old enough", func() bool {
			p, err := try(t, client, warm)
			return err == nil && p.Holds
		})
		leaves(t, client, warm)
		warm.Ticket = 0
	}
	proxies[2].Freeze(true, true) // the claim gets two servers
	start := time.Now()
	holds(t, d, c)
	servers[1].Restart() // it has nothing on disk
	second := redlockClaim("forgotten", "second")
	second.TTL, second.Try = time.Second, true
	for time.Since(start) < longest-500*time.Millisecond {
		p, err := try(t, other, second)
		if took := time.Since(start); err == nil && p.Holds && took < longest {
			t.Fatalf("a second claim holds %v after the first, which one of two servers forgot; want it to wait for %v",
				took, longest)
		}
	}
	servertest.Until(t, "the restarted server votes again", func() bool {
		p, err := try(t, other, second)
		return err == nil && p.Holds
	})
}

// The answers to an Enter are lost; the same request again finds the claim.
func TestRedlockLostReplies(t *testing.T) {
	t.Parallel()
	servers, _ := redlockOf(t, 3, durable...)
	proxies, url := proxied(t, servers)
	d := openRedlock(t, url) // its requests leave within its timeout of 2s
	for _, p := range proxies[:2] {
		p.Freeze(false, true)
	}
	c := redlockClaim("lost", "x")
	_, err := try(t, d, c)
	if err == nil || driver.NotApplied(err) {
		t.Errorf("enter = %v; want an error that leaves the outcome open", err)
	}
	for _, p := range proxies {
		p.Drop()
	}
	servertest.Until(t, "the claim holds", func() bool {
		p, err := try(t, d, c)
		return err == nil && p.Holds
	})
	leaves(t, d, c)
	servertest.Until(t, "no server has the key", func() bool { return on(servers, "lost") == 0 })
}

// A claim that came to hold on two of three servers is soon entered on the third.
func TestRedlockThinMajorityIsRepaired(t *testing.T) {
	t.Parallel()
	servers, _ := redlockOf(t, 3, durable...)
	proxies, url := proxied(t, servers)
	d := openRedlock(t, url)
	servers[2].Redis([]string{"SET", "thin", "another library's attempt", "PX", "60000"})
	c := redlockClaim("thin", "x")
	holds(t, d, c)
	servers[2].Redis([]string{"DEL", "thin"})
	servertest.Until(t, "the third server has it without a renewal", func() bool { return on(servers, "thin") == 3 })
	servers[0].Redis([]string{"DEL", "thin"}) // by a client that does not compare
	if a := d.Renew(soon(t), []*driver.Claim{c})[0]; a.Err != nil {
		t.Fatalf("renewal = %v; want nil, since two have it", a.Err)
	}
	servertest.Until(t, "the first server has it again", func() bool { return on(servers, "thin") == 3 })
	proxies[1].Freeze(true, true)
	if a := d.Renew(soon(t), []*driver.Claim{c})[0]; a.Err != nil {
		t.Fatalf("renewal = %v; want nil, by the repaired ones", a.Err)
	}
	proxies[1].Drop()
	leaves(t, d, c)
	servertest.Until(t, "no server has the key", func() bool { return on(servers, "thin") == 0 })
}

func TestRedlockForeign(t *testing.T) {
	t.Parallel()
	servers, url := redlockOf(t, 3, durable...)
	d := openRedlock(t, url)
	all := func(command ...string) {
		for _, s := range servers {
			s.Redis(command)
		}
	}

	servers[0].Redis([]string{"HSET", "typed", "a", "1"})
	c := redlockClaim("typed", "x")
	holds(t, d, c)
	leaves(t, d, c)
	servers[1].Redis([]string{"HSET", "typed", "a", "1"})
	_, err := try(t, d, redlockClaim("typed", "y"))
	if !errors.Is(err, driver.ErrForeign) || !strings.Contains(err.Error(), "is a hash") {
		t.Errorf("enter with a hash on two servers = %v; want ErrForeign", err)
	}

	all("SET", "theirs", "their token", "NX", "PX", "5000")
	waiter := redlockClaim("theirs", "x")
	p, err := try(t, d, waiter)
	if err != nil || p.Holds || p.Ticket == 0 || p.Retry <= 0 || !p.Blocker.Holds {
		t.Errorf("enter = %+v, %v; want it behind a claim, with when that ends", p, err)
	}
	waiter.Ticket = p.Ticket
	servertest.Until(t, "their lease is over", func() bool {
		p, err := try(t, d, waiter)
		return err == nil && p.Holds
	})
	taken := 0
	for _, s := range servers {
		if s.Redis([]string{"SET", "theirs", "their token", "NX", "PX", "5000"}) == "OK" {
			taken++ // their last lease there ended after the claim held
		}
	}
	if taken > 1 {
		t.Errorf("they get %d of 3 servers while stile holds; want no majority", taken)
	}
	all("DEL", "theirs") // by a client that does not compare
	if a := d.Renew(soon(t), []*driver.Claim{waiter})[0]; !errors.Is(a.Err, driver.ErrGone) {
		t.Errorf("renewal = %v; want ErrGone", a.Err)
	}
}

// A key that never expires delays a claim no longer than a lease.
func TestRedlockForeignThatNeverExpires(t *testing.T) {
	t.Parallel()
	servers, url := redlockOf(t, 3, durable...)
	d := openRedlock(t, url+"?timeout=20s") // otherwise a short lease is over before a busy machine answers
	for _, s := range servers {
		s.Redis([]string{"SET", "endless", "redis-py without timeout"})
	}
	endless := redlockClaim("endless", "x")
	endless.TTL, endless.Wait = 300*time.Millisecond, 300*time.Millisecond
	var err error
	servertest.Until(t, "the wait is given up", func() bool {
		_, err = try(t, d, endless)
		return err != nil
	})
	if !errors.Is(err, driver.ErrForeign) || !strings.Contains(err.Error(), "never expires") {
		t.Errorf("enter = %v; want ErrForeign", err)
	}
}

// A waiter is woken when the name is free.
func TestRedlockWakes(t *testing.T) {
	t.Parallel()
	_, url := redlockOf(t, 3, durable...)
	lane := awake.Lane(t)
	a, b := openRedlock(t, url), openRedlock(t, url)
	for i := range 5 {
		holder, waiter := redlockClaim("wake", fmt.Sprint("h", i)), redlockClaim("wake", fmt.Sprint("w", i))
		holds(t, a, holder)
		if p, err := try(t, b, waiter); err != nil || p.Holds {
			t.Fatalf("enter = %+v, %v; want it to wait", p, err)
		}
		free := make(chan error, 1)
		go func() {
			_, err := b.Await(soon(t), waiter)
			free <- err
		}()
		start := time.Now()
		leaves(t, a, holder)
		if err := <-free; err != nil {
			t.Errorf("await = %v; want nil", err)
		}
		lane.Within(time.Since(start), 4*time.Second, "the waiter is told, before anything runs out,")
		holds(t, b, waiter)
		leaves(t, b, waiter)
	}
}

// Tokens rise whichever majority gives them, whatever a single server has seen.
func TestRedlockTicketsRise(t *testing.T) {
	t.Parallel()
	servers, _ := redlockOf(t, 3, durable...)
	proxies, url := proxied(t, servers)
	others, otherURL := proxied(t, servers)
	a, b := openRedlock(t, url), openRedlock(t, otherURL)
	last := int64(0)
	next := func(d driver.Driver, id string) {
		t.Helper()
		c := redlockClaim("tickets", id)
		c.TTL = 4 * time.Second // a node may take a quarter of it for an answer
		servertest.Until(t, id+" holds", func() bool {
			p, err := try(t, d, c)
			return err == nil && p.Holds
		})
		if c.Ticket <= last {
			t.Errorf("%s has ticket %d after %d; want it to rise", id, c.Ticket, last)
		}
		last = c.Ticket
		leaves(t, d, c)
	}
	next(a, "first")
	// A ticket far ahead on one server only, left by an attempt without a majority.
	ahead := last + time.Hour.Microseconds()
	servers[0].Redis([]string{"SET", "stile/ticket/{tickets}", fmt.Sprint(ahead), "PX", "600000"})
	proxies[2].Freeze(true, true)
	next(a, "by the first two")
	if last <= ahead { // a late attempt has already taken the next one
		t.Errorf("the ticket is %d; want more than %d, which the first server has seen", last, ahead)
	}
	others[0].Freeze(true, true)
	next(b, "by the last two") // one of them was in the earlier majority
	others[0].Drop()
	others[1].Freeze(true, true)
	next(b, "by the outer two")
	for i := range 20 {
		next(b, fmt.Sprint("b", i))
	}
	left := servers[2].Redis([]string{"PTTL", "stile/ticket/{tickets}"}).(int64)
	if left < time.Hour.Milliseconds() || left > 3*time.Hour.Milliseconds() {
		t.Errorf("the last ticket is kept for %d ms; want it an hour longer than it is ahead", left)
	}
}
