//go:build unix

package redis

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
)

// BenchmarkPair measures a lock and unlock by n goroutines on n names: the time, which depends on the machine's other work,
// the processor time of client and server, and the allocations.
//
//	go test -run '^$' -bench Pair -benchtime 20000x .
func BenchmarkPair(b *testing.B) {
	s := servertest.Redis(b)
	for _, n := range []int{1, 2, 4, 8, 16, 32, 64, 1024} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			c, err := stile.Open(b.Context(), "redis://"+s.Addr, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			b.ReportAllocs()
			client, server := clientTime(b), serverTime(b, s)
			var all sync.WaitGroup
			for i := range n {
				all.Go(func() {
					for l := c.Mutex(fmt.Sprint("name", i)); i < b.N; i += n {
						lease, err := l.Lock(b.Context())
						if err == nil {
							err = lease.Unlock()
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64((clientTime(b)-client).Nanoseconds())/1e3/float64(b.N), "client-µs/op")
			b.ReportMetric(float64((serverTime(b, s)-server).Nanoseconds())/1e3/float64(b.N), "server-µs/op")
		})
	}
}

// BenchmarkClientBytes measures the heap of a client that has taken and released a lock.
//
//	go test -run '^$' -bench ClientBytes -benchtime 100x .
func BenchmarkClientBytes(b *testing.B) {
	s := servertest.Redis(b)
	var clients []*stile.Client
	more := func() {
		c, err := stile.Open(b.Context(), "redis://"+s.Addr, nil)
		if err != nil {
			b.Fatal(err)
		}
		clients = append(clients, c)
		lease, err := c.Mutex("name").Lock(b.Context())
		if err == nil {
			err = lease.Unlock()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	more() // the first one is not counted
	before := heapBytes()
	for b.Loop() {
		more()
	}
	b.ReportMetric(float64(heapBytes()-before)/1024/float64(b.N), "KiB/client")
	for _, c := range clients {
		c.Close()
	}
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC() // the first may leave objects of finalizers and pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // it is not as large
}

// clientTime returns the processor time of this process.
func clientTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serverTime returns the processor time of a server.
func serverTime(b *testing.B, s *servertest.Server) (sum time.Duration) {
	b.Helper()
	for _, of := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(s.RedisInfo(of), 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(seconds * float64(time.Second))
	}
	return sum
}

// TestAllocations bounds the allocations of a lock and unlock of a name that nobody else wants, including the portable
// client: two requests with their deadlines. It finds a request that is made twice.
func TestAllocations(t *testing.T) {
	c, err := stile.Open(t.Context(), "redis://"+servertest.Redis(t).Addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l := c.Mutex("name")
	const most = 65 // 56 without the race detector, under which pools lose some of their objects
	got := testing.AllocsPerRun(1000, func() {
		lease, err := l.Lock(t.Context())
		if err == nil {
			err = lease.Unlock()
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if got > most {
		t.Errorf("a lock and unlock make %v allocations, want %d at most", got, most)
	}
}
