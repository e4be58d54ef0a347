package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// crowdOf opens the store at a URL so that each call makes a crowd, as many do elsewhere.
func crowdOf(url string) func(t testing.TB) driver.Driver {
	return func(t testing.TB) driver.Driver {
		t.Helper()
		d, err := driver.Open(timely(t), url)
		if err != nil {
			t.Fatal(err)
		}
		d.(*Driver).entering.least, d.(*Driver).leaving.least = 0, 0
		return d
	}
}

func crowdAt(t *testing.T, s *servertest.Server) *Driver {
	t.Helper()
	d := crowdOf("redis://" + s.Addr)(t).(*Driver)
	t.Cleanup(func() { d.Close() })
	return d
}

func TestContractOfCrowds(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Store{Open: crowdOf("redis://" + servertest.Redis(t).Addr)})
}

func TestModelOfCrowds(t *testing.T) {
	t.Parallel()
	drivertest.Model(t, drivertest.Store{Open: crowdOf("redis://" + servertest.Redis(t).Addr)}, 1, 1000)
}

func TestConcurrentInCrowds(t *testing.T) {
	t.Parallel()
	addr := servertest.Redis(t).Addr
	url := func(addrs ...string) string { return "redis://" + addrs[0] }
	s := drivertest.Store{Open: crowdOf(url(addr)), Detour: drive.Detour(url, addr)}
	drivertest.Concurrent(t, s, 1, 8)
}

// gathered waits until so many wait in a crowd that is held, and then has one script take them along.
func gathered(t *testing.T, w *crowd, n int) {
	t.Helper()
	waitFor(t, w, n)
	w.comeAgain()
	if !w.conn.Go(w.lead) {
		t.Fatal("the driver is closed")
	}
}

// waitFor returns when so many wait in a crowd.
func waitFor(t *testing.T, w *crowd, n int) {
	t.Helper()
	servertest.Until(t, fmt.Sprint(n, " wait"), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.waiting) == n
	})
}

// hold lets no script begin by itself.
func (w *crowd) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scripts += crowdsFar
}

// A script for a crowd does to each claim what a script for that claim would, whatever it does to others: what is free is taken, and
// what is not is looked at by itself.
func TestCrowdEnters(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := crowdAt(t, s)
	other := open(t, "redis://"+s.Addr)
	enter(t, other, claim("held", "another's"))
	permits := claim("counted", "another's")
	permits.Weight, permits.Capacity = 1, 2
	enter(t, other, permits)
	s.Redis([]string{"SET", d.key("foreign"), "data"})
	s.Redis([]string{"RPUSH", d.key("list"), "data"})
	again := claim("again", "again")
	before := enter(t, other, again)

	d.entering.hold()
	var all sync.WaitGroup
	var capacity *driver.CapacityError
	kinds := []string{"free", "delayed", "held", "counted", "foreign", "list", "again"}
	for _, kind := range kinds {
		c := claim(kind, kind)
		if kind == "delayed" {
			c.Delay = c.TTL
		}
		all.Go(func() {
			p, err := d.Enter(timely(t), c)
			ok := err == nil && p.Holds && p.TTL == c.TTL
			switch kind {
			case "held":
				ok = err == nil && !p.Holds && p.Ticket != 0
			case "counted":
				ok = errors.As(err, &capacity) && capacity.Have == 2
			case "foreign", "list":
				ok = errors.Is(err, driver.ErrForeign)
			case "again":
				ok = ok && p.Ticket == before.Ticket
			}
			if !ok {
				t.Errorf("%s: enter = %+v, %v", kind, p, err)
			}
		})
	}
	gathered(t, &d.entering, len(kinds))
	all.Wait()
	if n := s.Redis([]string{"EXISTS", d.key("free"), d.key("delayed")}); n != int64(2) {
		t.Errorf("%v of 2 keys are there", n)
	}
	if left, _ := s.Redis([]string{"PTTL", d.key("delayed")}).(int64); left <= claim("", "").TTL.Milliseconds() {
		t.Errorf("the key of the claim with a lock-delay lives for %d ms", left)
	}
}

// Claims that are alone leave together, and no other is touched.
func TestCrowdLeaves(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"+@all", "-mget"} {
		t.Run(right, func(t *testing.T) {
			s := servertest.Redis(t)
			user(s, "~*", "&*", "+@all", right)
			d := crowdOf("redis://locks:secret@" + s.Addr)(t).(*Driver)
			defer d.Close()
			cs := mixed(t, s, d)
			d.leaving.hold()
			var all sync.WaitGroup
			for kind, c := range cs {
				var want error
				switch kind {
				case "gone", "another's", "over":
					want = driver.ErrGone
				case "foreign", "list":
					want = driver.ErrForeign
				}
				all.Go(func() {
					if err := d.Leave(timely(t), &driver.Release{Claim: c}); !errors.Is(err, want) {
						t.Errorf("%s: leave = %v, want %v", kind, err, want)
					}
				})
			}
			gathered(t, &d.leaving, len(cs))
			all.Wait()
			list, err := d.List(timely(t), &driver.Query{})
			if err != nil || len(list) != 1 || list[0].Name != "another's" || len(list[0].Claims) != 1 {
				t.Errorf("there are still %+v, %v", list, err)
			}
			for _, kind := range []string{"foreign", "list"} {
				if s.Redis([]string{"EXISTS", d.key(kind)}) != int64(1) {
					t.Errorf("%s: the key is not there any more", kind)
				}
			}
		})
	}
}

// Who gives up before a script takes the claim along has sent nothing, and after that does not know. The others go on.
func TestCrowdIsNotItsMembers(t *testing.T) {
	t.Parallel()
	for _, sent := range []bool{false, true} {
		t.Run(fmt.Sprint("sent ", sent), func(t *testing.T) {
			s := servertest.Redis(t)
			d := crowdAt(t, s)
			gaveUp, stays := claim("gave up", "gave up"), claim("stays", "stays")
			d.entering.hold()
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			var all sync.WaitGroup
			all.Go(func() {
				_, err := d.Enter(ctx, gaveUp)
				want := driver.OutcomeUnsent
				if sent {
					want = driver.OutcomeUnknown
				}
				if got := driver.OutcomeOf(err); got != want || !errors.Is(err, context.Canceled) {
					t.Errorf("whoever gave up hears %v, %v; want %v", got, err, want)
				}
				if sent {
					s.Redis([]string{"CLIENT", "UNPAUSE"})
				} else if !d.conn.Go(d.entering.lead) {
					t.Error("the driver is closed")
				}
			})
			all.Go(func() {
				if p, err := d.Enter(timely(t), stays); err != nil || !p.Holds {
					t.Errorf("whoever stays hears %+v, %v", p, err)
				}
			})
			waitFor(t, &d.entering, 2)
			if sent {
				s.Redis([]string{"CLIENT", "PAUSE", "60000", "WRITE"})
				gathered(t, &d.entering, 2)
				waitFor(t, &d.entering, 0)
			}
			giveUp()
			all.Wait()
			there := int64(0)
			if sent {
				there = 1
			}
			if n := s.Redis([]string{"EXISTS", d.key("gave up")}); n != there {
				t.Errorf("%v claims of whoever gave up are there, want %d", n, there)
			}
		})
	}
}

// What a crowd cannot be told of is nothing that it believes.
func TestCrowdAnswers(t *testing.T) {
	lost := driver.Unreachable(errors.New("lost"))
	for text, ok := range map[string]bool{
		"id\n1.000002\n01": true, "id\n1.000002\n0": false, "id\n1.000002\n012": false, "id\n1.000002\n0x": false, "id\n\n01": false,
		"id\n01": false, "id": false, "": false, "\n": false,
	} {
		at, done, err := parseCrowdText(text, 2)
		if ok != (err == nil) || ok && (at != 1_000_002 || done != "01") {
			t.Errorf("%q says %d, %q, %v", text, at, done, err)
		}
	}
	if _, done, err := parseCrowd(nil, 2, driver.Refused(lost)); done != "00" || err != nil {
		t.Errorf("a crowd that is refused is told %q, %v; want that each goes by itself", done, err)
	}
	if _, _, err := parseCrowd(nil, 2, lost); !errors.Is(err, lost) || driver.OutcomeOf(err) != driver.OutcomeUnknown {
		t.Errorf("a crowd whose answer is lost is told %v", err)
	}
}
