package redis

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// longOf opens the store at a URL with the long form for every queue of two claims, so that queues that are usually short
// are long.
func longOf(url string) func(t testing.TB) driver.Driver {
	return func(t testing.TB) driver.Driver {
		t.Helper()
		d, err := driver.Open(timely(t), url)
		if err != nil {
			t.Fatal(err)
		}
		long := d.(*Driver)
		long.scripts = newQueueScripts(long.conn.EvenIfFull(), long.conn.Sharded(), queueForm{up: 2, down: 1})
		return long
	}
}

func TestContractOfLongQueues(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Store{Open: longOf("redis://" + servertest.Redis(t).Addr)})
}

func TestModelOfLongQueues(t *testing.T) {
	t.Parallel()
	drivertest.Model(t, drivertest.Store{Open: longOf("redis://" + servertest.Redis(t).Addr)}, 1, 2000)
}

func TestConcurrentOnLongQueues(t *testing.T) {
	t.Parallel()
	addr := servertest.Redis(t).Addr
	url := func(addrs ...string) string { return "redis://" + addrs[0] }
	s := drivertest.Store{Open: longOf(url(addr)), Detour: drive.Detour(url, addr)}
	drivertest.Concurrent(t, s, 1, 8)
}

func TestModelOfLongQueuesInCluster(t *testing.T) {
	t.Parallel()
	nodes := servertest.RedisCluster(t)
	drivertest.Model(t, drivertest.Store{Open: longOf("redis+cluster://" + nodes[0].Addr)}, 2, 500)
}

// A queue becomes long with its ninth claim, and short when fewer than five are left. It is short while it has a claim that
// would make all slots large.
func TestQueueBecomesLong(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	cs := many("one", 9)
	is := func(what, want string) {
		t.Helper()
		if got := form(s, d); got != want {
			t.Errorf("%s: the value begins with %q, want %q", what, got, want)
		}
	}
	for _, c := range cs[:8] {
		enter(t, d, c)
	}
	is("8 claims", "stile1")
	enter(t, d, cs[8])
	is("9 claims", "stile2")
	wide := claim("name", "wide")
	wide.Record = strings.Repeat("r", 5000)
	if p := enter(t, d, wide); p.Ahead != 9 {
		t.Errorf("the place = %+v, want 9 ahead", p)
	}
	is("a wide claim", "stile1")
	leave(t, d, wide)
	is("the wide claim has left", "stile2")
	for i, c := range cs[:4] {
		leave(t, d, c)
		is(fmt.Sprint(8-i, " claims"), "stile2")
	}
	leave(t, d, cs[4])
	is("4 claims", "stile1")
	for _, c := range cs[5:] {
		if p := enter(t, d, c); !p.Holds {
			t.Errorf("%s does not hold: %+v", c.ID, p)
		}
		leave(t, d, c)
	}
	if got := s.Redis([]string{"DBSIZE"}); got != int64(0) {
		t.Errorf("%v keys are left", got)
	}
}

// When claims of a long queue run out, at its head and behind it, the claims behind them hold and are notified.
func TestLongQueueRunsOut(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	cs := many("one", 30)
	for i, c := range cs[:29] {
		if i%10 != 5 {
			c.TTL, c.Wait = 3*time.Second, 3*time.Second
		}
		enter(t, d, c)
	}
	listens(t, d, cs[5])
	servertest.Until(t, "the 3 that are left are ahead of one more", func() bool { return enter(t, d, cs[29]).Ahead == 3 })
	if p := await(t, d, cs[5]); !p.Holds {
		t.Errorf("the first that is left has the place %+v", p)
	}
	if p := enter(t, d, cs[25]); p.Ahead != 2 {
		t.Errorf("%d are ahead of the third, want 2", p.Ahead)
	}
}

// The lock-delay of a claim that held keeps others out even if another claim runs out meanwhile, and its slot is emptied.
func TestLongQueueKeepsLockDelays(t *testing.T) {
	t.Parallel()
	d := open(t, "redis://"+servertest.Redis(t).Addr)
	cs := many("one", 12)
	for i, c := range cs {
		switch i {
		case 0:
			c.TTL, c.Delay = 200*time.Millisecond, time.Hour
		case 1:
			c.Wait = 400 * time.Millisecond
		default:
			c.Wait = time.Minute
		}
		enter(t, d, c)
	}
	ahead := 11
	servertest.Until(t, "the second has run out", func() bool {
		ahead = enter(t, d, cs[11]).Ahead
		return ahead < 11
	})
	if ahead != 10 {
		t.Errorf("%d are ahead of the last, want 10: the one with a lock-delay and those that wait", ahead)
	}
	if p := enter(t, d, cs[2]); p.Holds {
		t.Errorf("the next holds although a lock-delay has not passed: %+v", p)
	}
}

// That a claim is gone is answered without reading the queue. Otherwise the claims that lost their places in a very long queue
// would keep the server busy, and so cost others theirs.
func TestGoneFromALongQueue(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	cs := many("one", 20)
	for _, c := range cs {
		c.Ticket = enter(t, d, c).Ticket
	}
	leave(t, d, cs[12])
	s.Redis([]string{"CONFIG", "RESETSTAT"})
	_, entered := d.Enter(timely(t), cs[12])
	for what, err := range map[string]error{
		"enter": entered, "renew": renew(t, d, cs[12]), "leave": d.Leave(timely(t), &driver.Release{Claim: cs[12]}),
	} {
		if !errors.Is(err, driver.ErrGone) {
			t.Errorf("%s = %v; want ErrGone", what, err)
		}
	}
	if stats := fmt.Sprint(s.Redis([]string{"INFO", "commandstats"})); !strings.Contains(stats, "cmdstat_getrange:") ||
		strings.Contains(stats, "cmdstat_get:") {
		t.Errorf("the whole queue was read:\n%s", stats)
	}
	if p := enter(t, d, cs[19]); p.Ahead != 18 {
		t.Errorf("the last has the place %+v; want 18 ahead", p)
	}
}

// The key of a long queue lives little longer than its claims, even if a former waiter holds and has a lock-delay.
func TestLongQueueExpires(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	cs := many("one", 12)
	for _, c := range cs {
		c.TTL, c.Wait = 300*time.Millisecond, 300*time.Millisecond
		enter(t, d, c)
	}
	servertest.Until(t, "nothing is left", func() bool { return s.Redis([]string{"DBSIZE"}) == int64(0) })
	for i, c := range many("next", 12) {
		if i == 1 {
			c.Delay = time.Hour
		}
		enter(t, d, c)
		cs = append(cs, c)
	}
	leave(t, d, cs[12])
	if left := s.Redis([]string{"PTTL", d.key("name")}).(int64); left < time.Hour.Milliseconds() {
		t.Errorf("the key expires in %d ms, and the claim that was told has a lock-delay of an hour", left)
	}
}

// The head of a long queue has the longest life of the key, so a later, shorter renewal does not shorten it.
func TestLongQueueLivesOn(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	cs := many("one", 12)
	for i, c := range cs {
		c.TTL, c.Wait = time.Minute, time.Minute
		enter(t, d, c)
		c.TTL, c.Wait = 2*time.Minute, 2*time.Minute
		if i == 0 {
			c.TTL = time.Hour
		}
	}
	for i, c := range cs[:2] {
		if err := renew(t, d, c); err != nil {
			t.Fatalf("%s renews: %v", c.ID, err)
		}
		if left := s.Redis([]string{"PTTL", d.key("name")}).(int64); left < (59 * time.Minute).Milliseconds() {
			t.Errorf("after renewal %d the key expires in %d ms, and a claim in it has an hour", i+1, left)
		}
	}
}

// A long queue that is deleted or evicted is gone for all of its claims, and tickets still rise.
func TestLongQueueIsDeleted(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"DEL", "UNLINK", "FLUSHALL"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := servertest.Redis(t)
			d := open(t, "redis://"+s.Addr)
			cs := many("one", 20)
			for _, c := range cs {
				enter(t, d, c)
			}
			if how == "FLUSHALL" {
				s.Redis([]string{how})
			} else {
				s.Redis([]string{how, d.key("name")})
			}
			again := claim("name", "again")
			if p := enter(t, d, again); !p.Holds || p.Ticket <= cs[19].Ticket {
				t.Errorf("the place = %+v, want it to hold with a ticket above %d", p, cs[19].Ticket)
			}
			for _, c := range cs {
				if _, err := d.Enter(timely(t), c); !errors.Is(err, driver.ErrGone) {
					t.Errorf("%s stays = %v, want ErrGone", c.ID, err)
				}
				if err := renew(t, d, c); !errors.Is(err, driver.ErrGone) {
					t.Errorf("%s renews = %v, want ErrGone", c.ID, err)
				}
			}
		})
	}
}

// The remarks report that a user lacks the right to change a string in place. The user shares names with users who have the
// right.
func TestWithoutRightsInPlace(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"getrange", "setrange", "pexpire"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			s := servertest.Redis(t)
			user(s, "~*", "&*", "+@all", "-"+command)
			may, mayNot := open(t, "redis://"+s.Addr), open(t, "redis://locks:secret@"+s.Addr)
			said := func(d *Driver) bool {
				return slices.ContainsFunc(d.Traits().Remarks(), func(n string) bool { return strings.Contains(n, "SETRANGE") })
			}
			if said(may) || !said(mayNot) {
				t.Errorf("the notes are %q and %q", may.Traits().Remarks(), mayNot.Traits().Remarks())
			}
			cs := many("one", 20)
			for i, c := range cs {
				if p := enter(t, []*Driver{may, mayNot}[i%2], c); p.Ahead != i {
					t.Errorf("%d are ahead, want %d", p.Ahead, i)
				}
			}
			for i, c := range cs {
				d := []*Driver{may, mayNot}[i/2%2]
				if p := enter(t, d, c); !p.Holds {
					t.Errorf("%s does not hold: %+v", c.ID, p)
				}
				if err := renew(t, d, c); err != nil {
					t.Errorf("%s renews: %v", c.ID, err)
				}
				leave(t, d, c)
			}
		})
	}
}
