//go:build unix

package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

// Floors: the least cost of locks with these round trips and this client library, as requests without queue, ticket or
// lease.

// toldFloor hands a key on by a script, a message and a script, like a lock: a client that finds the key taken is appended
// to a list, and the client that gives it back takes the first from the list and publishes to it.
type toldFloor struct {
	take, give *conn.Script
}

func newToldFloor() *toldFloor {
	beside := func(key string) string { return key + "/list" }
	return &toldFloor{
		conn.NewScript(`if redis.call('SET', KEYS[1], ARGV[1], 'NX') then return {KEYS[1], ARGV[1], 'ok', 1} end
redis.call('RPUSH', KEYS[2], ARGV[1])
return {KEYS[1], ARGV[1], 'ok', 0}`, beside),
		conn.NewScript(`local next = redis.call('LPOP', KEYS[2])
if next then
  redis.call('SET', KEYS[1], next)
  redis.call('PUBLISH', 'told/' .. next, next)
else
  redis.call('DEL', KEYS[1])
end
return ARGV[1]`, beside),
	}
}

// open connects one client that takes and gives back.
func (f *toldFloor) open(b *testing.B, s *servertest.Server, id string) (take func(), end func()) {
	b.Helper()
	c := open(b, "redis://"+s.Addr).conn
	stands, told := make(chan struct{}, 1), make(chan struct{}, 1)
	c.Go(func() {
		_ = c.Subscribe(c.Context(), "told/"+id, func(up bool) { // until the Conn is closed
			if up {
				stands <- struct{}{}
			}
		}, func(string) { told <- struct{}{} })
	})
	<-stands
	return func() {
		a, err := c.Run(b.Context(), f.take, "thing", id)
		if err == nil && a.Number(0) == 0 {
			<-told
		}
		if err == nil {
			_, err = c.Run(b.Context(), f.give, "thing", id)
		}
		if err != nil {
			b.Error(err)
		}
	}, func() {}
}

// heldFloor measures the server's least work in a second for n keys that are touched each third of a ttl, by scripts for as
// many keys as stile's.
func heldFloor(b *testing.B, s *servertest.Server, n int, ttl time.Duration) {
	b.Helper()
	d := open(b, "redis://"+s.Addr)
	script := conn.NewScript(`for _, key in ipairs(KEYS) do redis.call('SET', key, ARGV[2], 'PX', ARGV[3]) end
return {KEYS[1], ARGV[1], 'ok'}`, nil)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("key-", i)
	}
	millis := number(ttl.Milliseconds())
	from, worked, begin := commands(b, s), serverTime(b, s), time.Now()
	for range 2 {
		next := time.After(ttl / 3)
		for at := 0; at < n; at += together {
			if _, err := d.conn.RunTogether(b.Context(), script, keys[at:min(at+together, n)], []string{"id", "value", millis}); err != nil {
				b.Fatal(err)
			}
		}
		<-next
	}
	reportHeld(b, s, from, worked, begin)
}

// idleFloor measures the server's least work for n clients that listen on one connection each, and sometimes read a key on
// another, as often as a waiting claim renews its place.
func idleFloor(b *testing.B, s *servertest.Server, n int) {
	b.Helper()
	const every = 4 * time.Second
	script := conn.NewScript(`redis.call('GET', KEYS[1]) return ARGV[1]`, nil)
	ctx, cancel := context.WithCancel(b.Context())
	var asking sync.WaitGroup
	for i := range n {
		c := open(b, "redis://"+s.Addr).conn
		c.Go(func() { _ = c.Subscribe(ctx, fmt.Sprint("idle/", i), func(bool) {}, func(string) {}) }) // until ctx ends
		asking.Go(func() {
			for next := time.After(rand.N(every)); ; next = time.After(every) {
				select {
				case <-next:
				case <-ctx.Done():
					return
				}
				if _, err := c.Run(ctx, script, "key", "id"); err != nil && ctx.Err() == nil {
					b.Error(err)
				}
			}
		})
	}
	window(5 * time.Second) // until all have subscribed and read
	b.ReportMetric(idleShare(b, s), "%-of-a-core-idle")
	cancel()
	asking.Wait()
}
