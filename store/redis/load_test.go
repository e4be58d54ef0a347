//go:build unix

package redis

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
)

// The costs of many locks and many clients. Each of these takes some seconds:
//
//	go test -run '^$' -bench 'Held|Unlock|Crowd' -benchtime 1x .
//	go test -run '^$' -bench PassedOn -benchtime 20000x .
//
// The floors in floor_test.go are the least costs of locks with the same requests.

func client(b *testing.B, s *servertest.Server, ttl time.Duration) *stile.Client {
	b.Helper()
	c, err := stile.Open(b.Context(), "redis://"+s.Addr, &stile.Options{LockOptions: stile.LockOptions{TTL: ttl}})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// window waits while something is measured.
func window(d time.Duration) { <-time.After(d) }

// hold takes n names by 64 goroutines.
func hold(b *testing.B, c *stile.Client, n int) []*stile.Lease {
	b.Helper()
	leases := make([]*stile.Lease, n)
	const goroutines = 64
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := g; i < n; i += goroutines {
				lease, err := c.Mutex(fmt.Sprint("held-", i)).Lock(b.Context())
				if err != nil {
					b.Error(err)
					return
				}
				leases[i] = lease
			}
		})
	}
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return leases
}

// release releases leases by 64 goroutines, and returns how long that takes.
func release(b *testing.B, leases []*stile.Lease) time.Duration {
	b.Helper()
	const goroutines = 64
	begin := time.Now()
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := g; i < len(leases); i += goroutines {
				if err := leases[i].Unlock(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	return time.Since(begin)
}

// BenchmarkHeld measures the server's work for 1,000 held locks, beside a floor: commands, including those inside scripts,
// and processor time.
func BenchmarkHeld(b *testing.B) {
	for _, ttl := range []time.Duration{3 * time.Second, 15 * time.Second} {
		b.Run(ttl.String(), func(b *testing.B) {
			s := servertest.Redis(b)
			c := client(b, s, ttl)
			leases := hold(b, c, 1000)
			for b.Loop() {
				from, worked, begin := commands(b, s), serverTime(b, s), time.Now()
				window(2 * ttl / 3)
				reportHeld(b, s, from, worked, begin)
			}
			release(b, leases)
			c.Close()
		})
		b.Run(fmt.Sprint(ttl, "/floor"), func(b *testing.B) {
			s := servertest.Redis(b)
			for b.Loop() {
				heldFloor(b, s, 1000, ttl)
			}
		})
	}
}

// reportHeld reports the server's work per second since the given values.
func reportHeld(b *testing.B, s *servertest.Server, from int64, worked time.Duration, begin time.Time) {
	b.Helper()
	passed := time.Since(begin).Seconds()
	b.ReportMetric(float64(commands(b, s)-from)/passed, "commands/s")
	b.ReportMetric((serverTime(b, s)-worked).Seconds()*1e3/passed, "server-ms/s")
}

// BenchmarkUnlockBesideRenewals measures the unlocks of a client that renews 100,000 leases meanwhile, and the time to
// release 60,000 of them.
func BenchmarkUnlockBesideRenewals(b *testing.B) {
	s := servertest.Redis(b)
	c := client(b, s, 15*time.Second)
	leases := hold(b, c, 100_000)
	for b.Loop() {
		var times []time.Duration
		for begin := time.Now(); time.Since(begin) < 10*time.Second; window(time.Millisecond) {
			lease, err := c.Mutex("one more").Lock(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			begin := time.Now()
			if err := lease.Unlock(); err != nil {
				b.Fatal(err)
			}
			times = append(times, time.Since(begin))
		}
		slices.Sort(times)
		b.ReportMetric(times[len(times)/2].Seconds()*1e3, "p50-ms")
		b.ReportMetric(times[len(times)*99/100].Seconds()*1e3, "p99-ms")
		b.ReportMetric(times[len(times)-1].Seconds()*1e3, "max-ms")
		b.ReportMetric(release(b, leases[:60_000]).Seconds(), "s/60000-released")
	}
	release(b, leases[60_000:])
	c.Close()
}

// BenchmarkCrowd measures 1,000 clients, with a connection each, that want one lock which another client has: the time until
// all of them wait when they come at once, and the server's load while they wait.
func BenchmarkCrowd(b *testing.B) {
	const clients = 1000
	s := servertest.Redis(b)
	holder := client(b, s, 15*time.Second)
	lease, err := holder.Mutex("name").Lock(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	all := make([]*stile.Client, clients)
	for i := range all {
		all[i] = client(b, s, 15*time.Second)
	}
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		var waiting sync.WaitGroup
		begin, worked := time.Now(), serverTime(b, s)
		for _, c := range all {
			waiting.Go(func() {
				if lease, err := c.Mutex("name").Lock(ctx); err == nil {
					b.Error("a lock is had by two")
					_ = lease.Unlock()
				}
			})
		}
		for {
			q, err := holder.Show(b.Context(), "name")
			if err != nil {
				b.Fatal(err)
			}
			if len(q.Claims) > clients {
				break
			}
			window(5 * time.Millisecond)
		}
		b.ReportMetric(time.Since(begin).Seconds()*1e3, "ms-until-all-wait")
		b.ReportMetric((serverTime(b, s)-worked).Seconds()*1e3, "server-ms-until-then")
		window(5 * time.Second) // until all have subscribed and asked again
		b.ReportMetric(idleShare(b, s), "%-of-a-core-idle")
		cancel()
		waiting.Wait()
	}
	if err := lease.Unlock(); err != nil {
		b.Fatal(err)
	}
	for _, c := range append(all, holder) {
		c.Close()
	}
}

// BenchmarkCrowdFloor measures the server's work for 1,000 clients that only listen, and read as often as the waiters of
// BenchmarkCrowd.
func BenchmarkCrowdFloor(b *testing.B) {
	s := servertest.Redis(b)
	for b.Loop() {
		idleFloor(b, s, 1000)
	}
}

// idleShare returns the server's load in percent of a core while nothing happens.
func idleShare(b *testing.B, s *servertest.Server) float64 {
	b.Helper()
	begin, worked := time.Now(), serverTime(b, s)
	window(12 * time.Second)
	return 100 * (serverTime(b, s) - worked).Seconds() / time.Since(begin).Seconds()
}

// BenchmarkPassedOn measures how fast a lock goes round among clients with a goroutine and a connection each. Beside it are
// a list whose one element is popped and pushed, the fastest way in Redis to wake one of many, and a floor.
func BenchmarkPassedOn(b *testing.B) {
	s := servertest.Redis(b)
	for _, n := range []int{2, 8, 64} {
		b.Run(fmt.Sprint("lock/", n), func(b *testing.B) {
			b.StopTimer()
			goRound(b, s, n, func() (take func(), end func()) {
				c := client(b, s, 15*time.Second)
				m := c.Mutex("name")
				return func() {
					lease, err := m.Lock(b.Context())
					if err == nil {
						err = lease.Unlock()
					}
					if err != nil {
						b.Error(err)
					}
				}, func() { c.Close() }
			})
		})
		b.Run(fmt.Sprint("floor/", n), func(b *testing.B) {
			b.StopTimer()
			f, drawn := newToldFloor(), 0
			goRound(b, s, n, func() (take func(), end func()) {
				drawn++
				return f.open(b, s, fmt.Sprint(n, "-", b.N, "-", drawn))
			})
		})
		b.Run(fmt.Sprint("list/", n), func(b *testing.B) {
			b.StopTimer()
			s.Redis([]string{"DEL", "list"})
			s.Redis([]string{"RPUSH", "list", "element"})
			goRound(b, s, n, func() (take func(), end func()) {
				c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr}, DisableCache: true, PipelineMultiplex: -1})
				if err != nil {
					b.Fatal(err)
				}
				return func() {
					if err := c.Do(b.Context(), c.B().Blpop().Key("list").Timeout(0).Build()).Error(); err != nil {
						b.Error(err)
					}
					if err := c.Do(b.Context(), c.B().Rpush().Key("list").Element("element").Build()).Error(); err != nil {
						b.Error(err)
					}
				}, c.Close
			})
		})
	}
}

// goRound lets n clients hand one thing round, b.N times together.
func goRound(b *testing.B, s *servertest.Server, n int, open func() (take func(), end func())) {
	b.Helper()
	takes, ends := make([]func(), n), make([]func(), n)
	for i := range takes {
		takes[i], ends[i] = open()
		takes[i]()
	}
	var all sync.WaitGroup
	client, server, scripts := clientTime(b), serverTime(b, s), scriptTime(b, s)
	b.StartTimer()
	for i := range n {
		all.Go(func() {
			for n := i; n < b.N; n += len(takes) {
				takes[i]()
			}
		})
	}
	all.Wait()
	b.StopTimer()
	for unit, took := range map[string]time.Duration{
		"client-µs/op": clientTime(b) - client, "server-µs/op": serverTime(b, s) - server, "script-µs/op": scriptTime(b, s) - scripts,
	} {
		b.ReportMetric(float64(took.Nanoseconds())/1e3/float64(b.N), unit)
	}
	for _, end := range ends {
		end()
	}
}

var commandCalls = regexp.MustCompile(`cmdstat_[^:]+:calls=(\d+)`)

// commands returns how many commands the server has run, including those inside scripts.
func commands(b *testing.B, s *servertest.Server) (sum int64) {
	b.Helper()
	text, _ := s.Redis([]string{"INFO", "commandstats"}).(string)
	for _, found := range commandCalls.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseInt(found[1], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += n
	}
	return sum
}
