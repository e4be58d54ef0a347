package redis

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// areTold lets claims wait for the server's message, and returns a function that waits until all of them have the message.
func areTold(t *testing.T, d *Driver, waiters []*driver.Claim) (all func()) {
	t.Helper()
	var told sync.WaitGroup
	for i, c := range waiters {
		listens(t, d, c)
		told.Go(func() {
			p, err := d.Await(timely(t), c)
			if err != nil || !p.Holds || p.Ticket != c.Ticket {
				t.Errorf("await %d: %+v, %v", i, p, err)
			}
		})
	}
	return told.Wait
}

// Claims on every server of a cluster enter, are listed, are woken and leave.
func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := servertest.RedisCluster(t)
	url := "redis+cluster://" + nodes[0].Addr + "," + nodes[2].Addr
	one, two := open(t, url), open(t, url)
	if !one.conn.Sharded() {
		t.Error("messages go to all servers of the cluster")
	}
	const names = 48
	var holders, waiters []*driver.Claim
	for i := range names {
		name := fmt.Sprintf("name {%d} / 🔒", i)
		a, b := claim(name, fmt.Sprint("a-", i)), claim(name, fmt.Sprint("b-", i))
		b.Client = "two"
		enter(t, one, a)
		enter(t, two, b)
		holders, waiters = append(holders, a), append(waiters, b)
	}
	for _, s := range nodes {
		if n := s.Redis([]string{"DBSIZE"}).(int64); n < names/10 {
			t.Errorf("%d of %d names are on the server at %s", n, names, s.Addr)
		}
	}
	list, err := two.List(timely(t), &driver.Query{Prefix: "name {1"})
	if err != nil || len(list) != 11 || list[0].Name != "name {10} / 🔒" {
		t.Errorf("list: %d names, %v; want 11", len(list), err)
	}
	for i, r := range one.Renew(timely(t), holders) {
		if r.Err != nil {
			t.Errorf("renewal %d: %v", i, r.Err)
		}
	}
	told := areTold(t, two, waiters)
	for _, a := range holders {
		leave(t, one, a)
	}
	told()
	for _, b := range waiters {
		leave(t, two, b)
	}
	for _, s := range nodes {
		if got := s.Redis([]string{"DBSIZE"}); got != int64(0) {
			t.Errorf("%v keys are left on the server at %s", got, s.Addr)
		}
	}
}

// A name moves to another server of the cluster while a claim holds and another waits.
func TestResharding(t *testing.T) {
	t.Parallel()
	nodes := servertest.RedisCluster(t)
	d := open(t, "redis+cluster://"+nodes[0].Addr)
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b)
	listens(t, d, b)

	key := d.key("name")
	slot := fmt.Sprint(nodes[0].Redis([]string{"CLUSTER", "KEYSLOT", key}))
	id := func(s *servertest.Server) string { return s.Redis([]string{"CLUSTER", "MYID"}).(string) }
	from, to := -1, -1
	for i, s := range nodes {
		if s.Redis([]string{"DBSIZE"}) == int64(1) {
			from, to = i, (i+1)%len(nodes)
		}
	}
	if from < 0 {
		t.Fatal("no server has the name")
	}
	host, port, _ := strings.Cut(nodes[to].Addr, ":")
	nodes[to].Redis([]string{"CLUSTER", "SETSLOT", slot, "IMPORTING", id(nodes[from])})
	nodes[from].Redis([]string{"CLUSTER", "SETSLOT", slot, "MIGRATING", id(nodes[to])},
		[]string{"MIGRATE", host, port, key, "0", "10000"})
	if p := enter(t, d, b); p.Holds || p.Ahead != 1 {
		t.Errorf("while the name moves, the waiter's place is %+v", p)
	}
	for _, s := range []*servertest.Server{nodes[to], nodes[from], nodes[3-from-to]} {
		s.Redis([]string{"CLUSTER", "SETSLOT", slot, "NODE", id(nodes[to])})
	}
	if r := d.Renew(timely(t), []*driver.Claim{a})[0]; r.Err != nil {
		t.Errorf("renewal after the name has moved: %v", r.Err)
	}
	enter(t, d, b)
	listens(t, d, b)
	leave(t, d, a)
	if p := await(t, d, b); p.Ticket != b.Ticket {
		t.Errorf("ticket %d, want %d", p.Ticket, b.Ticket)
	}
}

// A subscription without waiters ends, and begins again when it is needed.
func TestSubscriptionsEnd(t *testing.T) {
	t.Parallel()
	s, nodes := servertest.Redis(t), servertest.RedisCluster(t)
	for url, servers := range map[string][]*servertest.Server{
		"redis://" + s.Addr:                {s},
		"redis+cluster://" + nodes[0].Addr: nodes,
	} {
		d := open(t, url)
		d.inboxes.Idle = 500 * time.Millisecond
		for range 2 {
			a, b := claim("name", "a"), claim("name", "b")
			enter(t, d, a)
			enter(t, d, b)
			listens(t, d, b)
			leave(t, d, b)
			leave(t, d, a)
			for _, s := range servers {
				servertest.Until(t, "no server has subscribers", func() bool {
					channels, _ := s.Redis([]string{"PUBSUB", "CHANNELS"}).([]any)
					sharded, _ := s.Redis([]string{"PUBSUB", "SHARDCHANNELS"}).([]any)
					return len(channels)+len(sharded) == 0
				})
			}
		}
	}
}

// Sentinel makes the replica the primary, and the driver follows. Claims may be lost then, as the traits say, but tickets go
// on rising.
func TestFailover(t *testing.T) {
	t.Parallel()
	set := servertest.RedisSentinel(t)
	d := open(t, "redis+sentinel://"+set.Sentinel.Addr+"/"+set.Name)
	if d.Traits().Failover {
		t.Error("the driver counts on a failover")
	}
	_, err := tryOpen(t, "redis+sentinel://"+set.Sentinel.Addr+"/other")
	says(t, err, "knows no primary named \"other\"")
	if err != nil {
		marks(t, err, true, false)
	}
	a, b := claim("name", "a"), claim("name", "b")
	for _, c := range []*driver.Claim{a, b} {
		c.TTL, c.Wait = 2*time.Minute, 2*time.Minute // longer than a failover
		enter(t, d, c)
	}
	listens(t, d, b)
	servertest.Until(t, "the replica has the queue", func() bool {
		return set.Replica.RedisInfo("master_repl_offset") == set.Primary.RedisInfo("master_repl_offset")
	})
	woken := make(chan error, 1)
	go func() {
		_, err := d.Await(timely(t), b)
		woken <- err
	}()
	set.Primary.Kill()
	err = <-woken
	if err != nil {
		t.Errorf("await ends with %v when the connection is lost", err)
	}
	servertest.Until(t, "the driver has found the new primary", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err = d.Enter(ctx, b); err != nil && driver.NotApplied(err) && !driver.IsUnreachable(err) {
			t.Fatalf("enter during the failover: %v", err)
		}
		return err == nil
	})
	if got := set.Replica.RedisInfo("role"); got != "master" {
		t.Fatalf("the replica's role is %q", got)
	}
	listens(t, d, b)
	leave(t, d, a)
	await(t, d, b)
	leave(t, d, b)
	c := claim("name", "c")
	if enter(t, d, c); c.Ticket <= b.Ticket {
		t.Errorf("ticket %d after %d", c.Ticket, b.Ticket)
	}
}
