package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

func openSetNX(t testing.TB, url string) *SetNX {
	t.Helper()
	d, err := driver.Open(timely(t), url+"?layout=setnx")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d.(*SetNX)
}

// The commands of other libraries.
var (
	foreignLock   = func(name, value string) []string { return []string{"SET", name, value, "NX", "PX", "60000"} }
	foreignUnlock = func(name, value string) []string {
		return []string{"EVAL",
			"if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0", "1", name, value}
	}
)

func TestSetNXExcludesOthers(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := openSetNX(t, "redis://"+s.Addr)

	ours := claim("order {42}", "ours")
	if p := enter(t, d, ours); !p.Holds || p.Ticket <= waitingTicket {
		t.Fatalf("enter = %+v; want a claim that holds", p)
	}
	if got := s.Redis(foreignLock("order {42}", "\x00theirs")); got != nil {
		t.Errorf("another library's SET NX = %v while stile holds; want nil", got)
	}
	if got := s.Redis(foreignUnlock("order {42}", "\x00theirs")); got != int64(0) {
		t.Errorf("another library's release = %v; want 0", got)
	}
	leave(t, d, ours)

	if got := s.Redis(foreignLock("order {42}", "\x00theirs")); got != "OK" {
		t.Fatalf("another library's SET NX = %v after stile's release; want OK", got)
	}
	waiter := claim("order {42}", "waiter")
	p := enter(t, d, waiter)
	if p.Holds || p.Retry <= 50*time.Second || p.Blocker.Record != "" || !p.Blocker.Holds {
		t.Errorf("enter = %+v; want it behind a claim that says nothing, with a minute left", p)
	}
	if err := d.Leave(timely(t), &driver.Release{Claim: waiter}); !errors.Is(err, driver.ErrGone) {
		t.Errorf("leave of a claim that waits = %v; want ErrGone, since nothing stands for it", err)
	}
	if got := s.Redis([]string{"GET", "order {42}"}); got != "\x00theirs" {
		t.Errorf("the key is %q; want the other library's", got)
	}

	d.safely = time.Hour // so that it learns of the release in no other way
	told := awaiting(t, d, claim("order {42}", "next"))
	tells(t, s)
	s.Redis(foreignUnlock("order {42}", "\x00theirs"))
	if p := <-told; !p.Holds {
		t.Errorf("the waiter = %+v after another library's release; want it told", p)
	}
}

func TestSetNXIsLostWhenOthersTakeIt(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := openSetNX(t, "redis://"+s.Addr)
	for what, theft := range map[string][]string{
		"deletes":    {"DEL", "theft"},
		"overwrites": {"SET", "theft", "mine now"},
		"replaces":   {"EVAL", "redis.call('DEL', KEYS[1]) redis.call('HSET', KEYS[1], 'a', 1)", "1", "theft"},
	} {
		s.Redis([]string{"DEL", "theft"})
		c := claim("theft", "held-"+what)
		if !enter(t, d, c).Holds {
			t.Fatalf("%s: want a claim that holds", what)
		}
		s.Redis(theft)
		err := d.Renew(timely(t), []*driver.Claim{c})[0].Err
		if !errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrForeign) {
			t.Errorf("%s: renewal = %v; want ErrGone or ErrForeign", what, err)
		}
		if _, err := d.Enter(timely(t), c); !errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrForeign) {
			t.Errorf("%s: enter = %v; want ErrGone or ErrForeign", what, err)
		}
	}
}

func TestSetNXDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := openSetNX(t, "redis://"+s.Addr)
	s.Redis([]string{"SET", "endless", "redis-py without timeout"})
	c := claim("endless", "waits")
	c.TTL, c.Wait = 200*time.Millisecond, 200*time.Millisecond
	try := *c
	try.ID, try.Try = "tries", true
	if p := enter(t, d, &try); p.Ticket != 0 || p.Blocker.Remaining != 0 || p.Blocker.Record != "its key never expires" {
		t.Errorf("try = %+v; want it refused, with a time left that is not known, and why", p)
	}
	if p := enter(t, d, c); p.Holds || p.Ticket != waitingTicket {
		t.Errorf("enter = %+v; want it to wait at first", p)
	}
	var err error
	servertest.Until(t, "the wait is given up", func() bool {
		_, err = d.Enter(timely(t), c)
		return err != nil
	})
	if !errors.Is(err, driver.ErrForeign) {
		t.Errorf("enter = %v; want ErrForeign", err)
	}
	says(t, err, `"endless"`, "never expires")
	s.Redis([]string{"DEL", "endless"})
	if !enter(t, d, claim("endless", "after")).Holds {
		t.Error("the lock is not had after the key was deleted")
	}
}

func TestSetNXRefusesOtherTypes(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := openSetNX(t, "redis://"+s.Addr)
	s.Redis([]string{"HSET", "hash", "a", "1"}) // Redisson's lock is one
	_, err := d.Enter(timely(t), claim("hash", "x"))
	if !errors.Is(err, driver.ErrForeign) {
		t.Errorf("enter = %v; want ErrForeign", err)
	}
	says(t, err, `"hash"`, "is a hash")
}

func TestSetNXListsItsOwn(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := openSetNX(t, "redis://"+s.Addr)
	s.Redis([]string{"SET", "app:cache", "not a lock"}, []string{"HSET", "app:hash", "a", "1"})
	s.Redis(foreignLock("app:theirs", "token"))
	c := claim("app:ours", "x")
	enter(t, d, c)
	got, err := d.List(timely(t), &driver.Query{Prefix: "app:"})
	if err != nil || len(got) != 1 || got[0].Name != "app:ours" || got[0].Claims[0].Record != c.Record {
		t.Errorf("list = %+v, %v; want stile's lock alone", got, err)
	}
	got, err = d.List(timely(t), &driver.Query{Name: "app:theirs"})
	if err != nil || len(got) != 1 || len(got[0].Claims) != 1 || got[0].Claims[0].Remaining < 50*time.Second {
		t.Errorf("list of one name = %+v, %v; want the other library's lock", got, err)
	}
	if st, err := d.Break(timely(t), &driver.BreakRequest{Name: "app:theirs"}); err != nil || !st.Holds {
		t.Errorf("break = %+v, %v; want the other library's lock", st, err)
	}
	if !enter(t, d, claim("app:theirs", "y")).Holds {
		t.Error("the lock is not had after it was broken")
	}
}

// If the user may not track changes, a waiter polls.
func TestSetNXWithoutTracking(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	s.Redis([]string{"ACL", "SETUSER", "plain", "on", ">secret", "~*", "&*", "+@all"})
	d := openSetNX(t, "redis://plain:secret@"+s.Addr)
	s.Redis([]string{"ACL", "SETUSER", "plain", "-client|tracking"}) // without it from the start, the driver does not ask
	holder := claim("deaf", "holder")
	enter(t, d, holder)
	told := awaiting(t, d, claim("deaf", "waiter"))
	servertest.Until(t, "the server was asked to tell, and refused", func() bool {
		denied, _ := s.Redis([]string{"ACL", "LOG"}).([]any)
		return len(denied) > 0
	})
	leave(t, d, holder)
	if p := <-told; !p.Holds {
		t.Errorf("the waiter = %+v; want it to hold", p)
	}
}

func TestSetNXSurvivesRestart(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := openSetNX(t, "redis://"+s.Addr)
	holder := claim("restart", "holder")
	enter(t, d, holder)
	told := make(chan driver.Place, 1)
	go func() {
		for {
			p, err := d.Enter(timely(t), claim("restart", "waiter"))
			if err == nil && p.Holds {
				told <- p
				return
			}
			_, _ = d.Await(timely(t), claim("restart", "waiter"))
		}
	}()
	tells(t, s)
	s.Restart() // it has nothing on disk: the lock is gone
	if p := <-told; !p.Holds {
		t.Errorf("the waiter = %+v; want it to hold", p)
	}
	servertest.Until(t, "the holder learns that it is lost", func() bool {
		return errors.Is(d.Renew(timely(t), []*driver.Claim{holder})[0].Err, driver.ErrGone)
	})
}

// tells waits until the server tracks a key for a client: then a waiter waits for its message.
func tells(t testing.TB, s *servertest.Server) {
	t.Helper()
	servertest.Until(t, "the server tells of a key", func() bool {
		return s.RedisInfo("tracking_total_keys") != "0"
	})
}
