package stile_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/memory"
)

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		var wg sync.WaitGroup
		inside := 0
		var last int64
		for range 3 {
			c, err := stile.New(store.Driver(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 4 {
				wg.Go(func() {
					for range 10 {
						err := c.Mutex("a").Do(t.Context(), func(ctx context.Context) error {
							inside++
							if inside != 1 {
								t.Error("two inside")
							}
							if tok := stile.Token(ctx); tok <= last {
								t.Errorf("token %d after %d", tok, last)
							} else {
								last = tok
							}
							time.Sleep(time.Millisecond)
							inside--
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			defer c.Close()
		}
		wg.Wait()
	})
}

func BenchmarkHot(b *testing.B) {
	c, _ := stile.New(memory.New(), nil)
	defer c.Close()
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		l := c.Mutex("a")
		for pb.Next() {
			le, err := l.Lock(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			le.Unlock()
		}
	})
}

func BenchmarkLinger(b *testing.B) {
	c, _ := stile.New(memory.New(), nil)
	defer c.Close()
	l := c.Mutex("a").With(stile.LockOptions{Linger: 10 * time.Millisecond})
	b.ReportAllocs()
	for b.Loop() {
		le, err := l.Lock(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		le.Unlock()
	}
}

func BenchmarkAlone(b *testing.B) {
	c, _ := stile.New(memory.New(), nil)
	defer c.Close()
	l := c.Mutex("a")
	b.ReportAllocs()
	for b.Loop() {
		le, err := l.Lock(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		le.Unlock()
	}
}
