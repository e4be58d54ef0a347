package stile_test

import (
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

func benchClient(b *testing.B) *stile.Client {
	c, err := stile.New(memory.New(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	})
	b.ReportAllocs()
	return c
}

func lockAndUnlock(b *testing.B, l *stile.Lock) {
	lease, err := l.Lock(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if err := lease.Unlock(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkAlone locks and unlocks with a store that costs nothing.
func BenchmarkAlone(b *testing.B) {
	l := benchClient(b).Mutex("a")
	for b.Loop() {
		lockAndUnlock(b, l)
	}
}

// BenchmarkTurns hands one claim round among 64 goroutines for each processor.
func BenchmarkTurns(b *testing.B) {
	l := benchClient(b).Mutex("a")
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			lockAndUnlock(b, l)
		}
	})
}

// BenchmarkLinger takes the lingering claim of the last unlock again.
func BenchmarkLinger(b *testing.B) {
	l := benchClient(b).Mutex("a").With(stile.LockOptions{Linger: 10 * time.Millisecond})
	for b.Loop() {
		lockAndUnlock(b, l)
	}
}

// BenchmarkReaders lets 64 goroutines for each processor share one name.
func BenchmarkReaders(b *testing.B) {
	l := benchClient(b).Reader("a")
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			lockAndUnlock(b, l)
		}
	})
}
