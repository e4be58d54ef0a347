package redis_test

import (
	"context"
	"github.com/stilelock/stile/internal/awake"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
)

// A vote that a server lost is soon entered again, even while others wait for the lock.
func TestRedlockVoteIsBackBesideWaiters(t *testing.T) {
	t.Parallel()
	const ttl, waiters = 3 * time.Second, 8
	servers, url := redlockOf(t, 3, durable...)
	lane := awake.Lane(t)
	client := func() *stile.Client {
		c, err := stile.Open(soon(t), url, &stile.Options{LockOptions: stile.LockOptions{TTL: ttl}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	held, err := client().Mutex("held").Lock(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for range waiters {
		c := client()
		all.Go(func() {
			if _, err := c.Mutex("held").Lock(ctx); ctx.Err() == nil {
				t.Errorf("a waiter's lock = %v; want it to wait", err)
			}
		})
	}
	value, _ := servers[0].Redis([]string{"GET", "held"}).(string)
	head, _, _ := strings.Cut(strings.TrimPrefix(value, "stile1\n"), "\n")
	for i := range 6 {
		s := servers[i%3]
		begin := time.Now()
		s.Redis([]string{"DEL", "held"})
		servertest.Until(t, "the vote is back", func() bool {
			value, _ := s.Redis([]string{"GET", "held"}).(string)
			return strings.Contains(value, head)
		})
		t.Logf("server %d: back after %v", i, time.Since(begin))
		lane.Within(time.Since(begin), ttl, "the vote of server %d is back", i)
		if err := held.Check(); err != nil {
			t.Fatalf("the lease has ended: %v", err)
		}
	}
}
