//go:build unix

package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// mixed enters claims, only some of which one script can renew, and returns them by their special property.
func mixed(t *testing.T, s *servertest.Server, d *Driver) map[string]*driver.Claim {
	t.Helper()
	cs := map[string]*driver.Claim{}
	for _, kind := range []string{"plain", "plain too", "delayed", "before another", "gone", "another's", "foreign", "list", "over"} {
		c := claim(kind, kind)
		switch kind {
		case "delayed":
			c.Delay = time.Minute
		case "over":
			c.TTL = 100 * time.Millisecond
		}
		enter(t, d, c)
		cs[kind] = c
	}
	cs["behind another"] = claim("before another", "behind another")
	enter(t, d, cs["behind another"])
	leave(t, d, cs["gone"])
	leave(t, d, cs["another's"])
	enter(t, d, claim("another's", "of another"))
	s.Redis([]string{"SET", d.key("foreign"), "data"})
	s.Redis([]string{"DEL", d.key("list")})
	s.Redis([]string{"RPUSH", d.key("list"), "data"})
	servertest.Until(t, "the short lease is over", func() bool { return s.Redis([]string{"EXISTS", d.key("over")}) == int64(0) })
	return cs
}

// A script that renews many claims has the same effect on claims and keys as a script for each claim, even without the right
// to read many keys at once.
func TestRenewMany(t *testing.T) {
	t.Parallel()
	for _, rights := range [][]string{{"+@all"}, {"+@all", "-mget"}, {"+@all", "-mget", "-getrange"}} {
		t.Run(strings.Join(rights, " "), func(t *testing.T) {
			s := servertest.Redis(t)
			s.Redis(append([]string{"ACL", "SETUSER", "locks", "on", ">secret", "~*", "&*"}, rights...))
			d := open(t, "redis://locks:secret@"+s.Addr)
			cs := mixed(t, s, d)
			kinds := make([]string, 0, len(cs))
			for kind := range cs {
				kinds = append(kinds, kind)
			}
			slices.Sort(kinds)
			all := make([]*driver.Claim, len(kinds))
			for i, kind := range kinds {
				longer := *cs[kind]
				longer.TTL = time.Hour
				all[i] = &longer
			}
			for i, r := range d.Renew(timely(t), all) {
				kind, want := kinds[i], time.Hour
				var err error
				switch kind {
				case "gone", "another's", "over":
					want, err = 0, driver.ErrGone
				case "foreign", "list":
					want, err = 0, driver.ErrForeign
				case "behind another":
					want = all[i].Wait
				}
				if r.TTL != want || !errors.Is(r.Err, err) {
					t.Errorf("%s: the renewal is %v, %v; want %v, %v", kind, r.TTL, r.Err, want, err)
				}
				if err != nil {
					continue
				}
				left, _ := s.Redis([]string{"PTTL", d.key(all[i].Name)}).(int64)
				lives := time.Duration(left) * time.Millisecond
				if least := time.Hour + all[i].Delay - time.Minute/2; lives < least {
					t.Errorf("%s: the key lives for %v, want %v", kind, lives, least)
				}
				if list, err := d.List(timely(t), &driver.Query{Name: all[i].Name}); err != nil || len(list) != 1 {
					t.Errorf("%s: the listing is %v, %v", kind, list, err)
				} else if left := list[0].Claims[0].Remaining; left < time.Hour-time.Minute {
					t.Errorf("%s: the lease has %v left, want an hour", kind, left)
				}
			}
			for _, kind := range []string{"plain", "delayed", "before another", "behind another"} {
				leave(t, d, cs[kind])
			}
		})
	}
}

// Few renewals are under way at once, and more while the server takes long to answer.
func TestRenewalsAtOnce(t *testing.T) {
	for took, want := range map[time.Duration]int64{0: renewingNear, far: renewingFar} {
		synctest.Test(t, func(t *testing.T) {
			r := newRenewals()
			r.took.Store(int64(took))
			ctx, cancel := context.WithCancel(t.Context())
			var (
				under atomic.Int64
				all   sync.WaitGroup
			)
			for range renewingFar + 4 {
				all.Go(func() {
					_ = r.take(ctx, func() error { // or it ends with ctx
						under.Add(1)
						<-ctx.Done()
						return nil
					})
				})
			}
			synctest.Wait()
			if got := under.Load(); got != want {
				t.Errorf("after one that took %v, %d renewals are under way at once; want %d", took, got, want)
			}
			cancel()
			all.Wait()
			if len(r.near) != 0 || len(r.all) != 0 {
				t.Errorf("%d and %d turns are not given back", len(r.near), len(r.all))
			}
		})
	}
}

// BenchmarkRenewals measures the server's time for a renewal of claims that are alone on their names.
//
//	go test -run '^$' -bench '^BenchmarkRenewals$' -benchtime 200x .
func BenchmarkRenewals(b *testing.B) {
	s := servertest.Redis(b)
	d := open(b, "redis://"+s.Addr)
	const many = 1024
	cs, of := make([]*driver.Claim, many), make([]int, many)
	for i := range cs {
		cs[i], of[i] = claim(fmt.Sprint("name-", i), fmt.Sprint("QZ3J5V7K2M4N6P8R-", i)), i
		cs[i].TTL = time.Hour
		enter(b, d, cs[i])
	}
	renewals := make([]driver.Renewal, many)
	for name, renew := range map[string]func(){
		"together": func() { renewals = d.Renew(b.Context(), cs) },
		"each":     func() { d.renewEach(b.Context(), cs, of, renewals) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			client, server := clientTime(b), serverTime(b, s)
			for b.Loop() {
				renew()
			}
			if err := renewals[many-1].Err; err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64((clientTime(b)-client).Nanoseconds())/1e3/float64(b.N)/many, "client-µs/renewal")
			b.ReportMetric(float64((serverTime(b, s)-server).Nanoseconds())/1e3/float64(b.N)/many, "server-µs/renewal")
		})
	}
}

// A renewal never makes a lease shorter, even if a claim is twice in one batch: the server's first reading is outdated at
// the second renewal.
func TestRenewManyTwice(t *testing.T) {
	t.Parallel()
	d := open(t, "redis://"+servertest.Redis(t).Addr)
	short, between := claim("name", "id"), claim("between", "id")
	enter(t, d, short)
	enter(t, d, between)
	long := *short
	long.TTL += time.Minute
	for i, r := range d.Renew(timely(t), []*driver.Claim{&long, between, short}) {
		if r.Err != nil || i != 1 && r.TTL <= short.TTL {
			t.Errorf("renewal %d of the batch is told %+v; want a lease of more than %v", i, r, short.TTL)
		}
	}
	if p := enter(t, d, short); p.TTL <= short.TTL {
		t.Errorf("a lease of %v is left of the %v that a renewal was told", p.TTL, long.TTL)
	}
}
