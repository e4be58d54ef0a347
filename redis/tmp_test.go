package redis

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

func TestTmp(t *testing.T) {
	s := servertest.Redis(t)
	one, two := open(t, "redis://"+s.Addr), open(t, "redis://"+s.Addr)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	var en, ll, rtt, hand, lv []time.Duration
	for i := range 2000 {
		time.Sleep(300 * time.Microsecond)
		z := claim("other", fmt.Sprint("z", i))
		t0 := time.Now()
		one.Enter(ctx, z)
		en = append(en, time.Since(t0))
		time.Sleep(300 * time.Microsecond)
		t0 = time.Now()
		one.Leave(ctx, &driver.Departure{Claim: z})
		ll = append(ll, time.Since(t0))
		time.Sleep(300 * time.Microsecond)
		t0 = time.Now()
		one.client.Do(ctx, one.client.B().Ping().Build())
		rtt = append(rtt, time.Since(t0))
		a, b := claim("name", fmt.Sprint("a", i)), claim("name", fmt.Sprint("b", i))
		a.Client, b.Client = "one", "two"
		enter(t, one, a)
		enter(t, two, b)
		listens(t, two, b)
		done := make(chan time.Time)
		go func() {
			two.Await(ctx, b)
			done <- time.Now()
		}()
		time.Sleep(300 * time.Microsecond)
		t0 = time.Now()
		leave(t, one, a)
		lv = append(lv, time.Since(t0))
		hand = append(hand, (<-done).Sub(t0))
		leave(t, two, b)
	}
	p := func(d []time.Duration) string {
		slices.Sort(d)
		return fmt.Sprint(d[len(d)/2], " ", d[len(d)*99/100])
	}
	fmt.Println("cold lone enter", p(en), "leave", p(ll), "rtt", p(rtt), "hand", p(hand), "leave", p(lv), s.RedisInfo("cmdstat_evalsha"))
}
