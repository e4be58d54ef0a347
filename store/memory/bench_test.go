package memory

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// enterAndLeave makes an uncontended lock and unlock.
func enterAndLeave(b *testing.B, d *Driver, l *driver.Release) {
	p, err := d.Enter(b.Context(), l.Claim)
	if err != nil || !p.Holds {
		b.Fatalf("enter = %+v, %v; want a place that holds", p, err)
	}
	if err := d.Leave(b.Context(), l); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkEnterLeave(b *testing.B) {
	b.ReportAllocs()
	d, l := New(), &driver.Release{Claim: brief("a")}
	for b.Loop() {
		enterAndLeave(b, d, l)
	}
}

// BenchmarkEnterLeaveApart uses goroutines with one name each, like clients that share nothing but the store.
func BenchmarkEnterLeaveApart(b *testing.B) {
	b.ReportAllocs()
	store, names := NewStore(), atomic.Int64{}
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		d, l := store.Driver(), &driver.Release{Claim: brief(strconv.FormatInt(names.Add(1), 10))}
		for pb.Next() {
			enterAndLeave(b, d, l)
		}
	})
}

// BenchmarkEnterLeaveBehind measures a claim that enters and leaves a queue of 64 others.
func BenchmarkEnterLeaveBehind(b *testing.B) {
	b.ReportAllocs()
	d := New()
	for i := range 64 {
		c := brief("a")
		c.ID, c.TTL, c.Wait = strconv.Itoa(i), time.Hour, time.Hour
		if _, err := d.Enter(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
	l := &driver.Release{Claim: brief("a")}
	for b.Loop() {
		if _, err := d.Enter(b.Context(), l.Claim); err != nil {
			b.Fatal(err)
		}
		if err := d.Leave(b.Context(), l); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRenew(b *testing.B) {
	b.ReportAllocs()
	d, claims := New(), make([]*driver.Claim, 1000)
	for i := range claims {
		claims[i] = brief(strconv.Itoa(i))
		claims[i].TTL = time.Hour
		if _, err := d.Enter(b.Context(), claims[i]); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		d.Renew(b.Context(), claims)
	}
}
