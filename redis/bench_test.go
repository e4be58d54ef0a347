package redis

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

func open(t servertest.TB, url string) *Driver {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	d, err := driver.Open(ctx, url)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { d.Close() })
	return d.(*Driver)
}

func claim(name, id string) *driver.Claim {
	return &driver.Claim{
		Name: name, ID: id, Client: "client-of-" + id, Weight: driver.All, Capacity: driver.All,
		TTL: 10 * time.Second, Wait: 5 * time.Second, Record: `{"owner":"someone","host":"a-host","pid":4711}`,
	}
}

func BenchmarkPair(b *testing.B) {
	s := servertest.Redis(b)
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := open(b, "redis://"+s.Addr)
			s.Redis([]string{"CONFIG", "RESETSTAT"})
			var wg sync.WaitGroup
			b.ResetTimer()
			for g := range n {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
					defer cancel()
					c := claim(fmt.Sprint("name-", g), fmt.Sprint("id-0123456789abcdef0123-", g))
					for range b.N/n + 1 {
						if _, err := d.Enter(ctx, c); err != nil {
							b.Error(err)
							return
						}
						if err := d.Leave(ctx, &driver.Departure{Claim: c}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.Log(n, b.N, s.RedisInfo("cmdstat_evalsha"), b.Elapsed()/time.Duration(b.N))
		})
	}
}
