package redis

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A stamper is a client of an old recipe, in which the key's value is the time at which the lock ends, by the holder's
// clock: SETNX, and GETSET after that time.
type stamper struct {
	server *servertest.Server
	ahead  time.Duration // how far its clock is ahead of the others'
}

const stampFor = 10 * time.Second

func (c *stamper) now() int64 { return time.Now().Add(c.ahead).UnixMilli() }

func (c *stamper) lock(name string) bool {
	stamp := strconv.FormatInt(c.now()+stampFor.Milliseconds(), 10)
	if c.server.Redis([]string{"SETNX", name, stamp}) == int64(1) {
		return true
	}
	over := func(stamp any) bool {
		n, err := strconv.ParseInt(fmt.Sprint(stamp), 10, 64)
		return err == nil && n < c.now()
	}
	return over(c.server.Redis([]string{"GET", name})) && over(c.server.Redis([]string{"GETSET", name, stamp}))
}

func (c *stamper) unlock(name string) { c.server.Redis([]string{"DEL", name}) }

// In each of these cases, two clients of the recipe hold at once. docs/stores/setnx.md lists them.
func TestTimeStampRecipeLetsTwoHold(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	a, b, c := &stamper{server: s}, &stamper{server: s}, &stamper{server: s}
	holds := func(who string, ok bool) {
		t.Helper()
		if !ok {
			t.Errorf("%s does not hold", who)
		}
	}

	fast := &stamper{server: s, ahead: 2 * stampFor}
	holds("the first", a.lock("skew"))
	if b.lock("skew") {
		t.Error("a second client holds, whose clock is that of the first")
	}
	holds("a client whose clock is fast", fast.lock("skew"))

	holds("the first", a.lock("late"))
	s.Redis([]string{"SET", "late", strconv.FormatInt(a.now()-1, 10)}) // its time is over
	holds("the second", b.lock("late"))
	a.unlock("late") // it removes the second's
	holds("a third, beside the second", c.lock("late"))

	stamp := strconv.FormatInt(a.now()-1, 10)
	s.Redis([]string{"SET", "race", stamp})
	seen := s.Redis([]string{"GET", "race"}) // c is about to send GETSET
	holds("the second", b.lock("race"))
	had := s.Redis([]string{"GET", "race"})
	// c sends it, and learns that it lost
	s.Redis([]string{"GETSET", "race", strconv.FormatInt(c.now()+3*stampFor.Milliseconds(), 10)})
	if got := s.Redis([]string{"GET", "race"}); seen != stamp || got == had {
		t.Errorf("the holder's stamp is %v as it was; want it overwritten by the one who lost", got)
	}
}

// The same cases in stile's layout: one client holds, whatever the clients' clocks say, and a late release frees nothing.
func TestSetNXWhereTheRecipeFails(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := openSetNX(t, "redis://"+s.Addr)
	a, b, c := claim("late", "a"), claim("late", "b"), claim("late", "c")
	if !enter(t, d, a).Holds {
		t.Fatal("want a claim that holds")
	}
	s.Redis([]string{"DEL", "late"}) // its time is over
	if !enter(t, d, b).Holds {
		t.Fatal("want the second to hold")
	}
	if err := d.Leave(timely(t), &driver.Release{Claim: a}); err == nil {
		t.Error("a late release is accepted")
	}
	if enter(t, d, c).Holds {
		t.Error("a third holds beside the second")
	}
	if (&stamper{server: s, ahead: 2 * stampFor}).lock("late") {
		t.Error("a client of the recipe holds beside stile")
	}
}
