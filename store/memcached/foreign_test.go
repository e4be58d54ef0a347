package memcached

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// The commands of other programs.
const (
	foreignLock   = "add %s 0 60 6\r\ntheirs\r\n"
	foreignUnlock = "delete %s\r\n"
)

func TestPlainExcludesOthers(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t)
	d := open(t, s.Addr, "?layout=plain")
	ours, name := claim("orders/42", "ours"), "orders/42"
	holds(t, d, ours)
	if got := s.Memcached(foreignLock, name); got != "NOT_STORED\r\n" {
		t.Errorf("another program's add = %q while stile holds; want it refused", got)
	}
	if err := leave(t, d, ours); err != nil {
		t.Fatal(err)
	}
	if got := s.Memcached(foreignLock, name); got != "STORED\r\n" {
		t.Fatalf("another program's add = %q after stile's release; want it stored", got)
	}
	waiter := claim(name, "waiter")
	p := waits(t, d, waiter)
	if b := p.Blocker; b.Record != "" || !b.Holds || b.Remaining < 50*time.Second || b.Remaining > time.Minute {
		t.Errorf("enter = %+v; want it behind a claim that says nothing, with a minute left", p)
	}
	if err := leave(t, d, waiter); !errors.Is(err, driver.ErrGone) {
		t.Errorf("leave of a claim that waits = %v; want ErrGone, since nothing stands for it", err)
	}
	list, err := d.List(timely(t), &driver.Query{Name: name})
	if err != nil || len(list) != 1 || !list[0].Claims[0].Holds {
		t.Errorf("list = %+v, %v; want another program's lock", list, err)
	}
	if list, err := d.List(timely(t), &driver.Query{}); err != nil || len(list) != 0 {
		t.Errorf("list of all = %+v, %v; want stile's alone", list, err)
	}
	told := make(chan error, 1)
	go func() {
		_, err := d.Await(timely(t), waiter)
		told <- err
	}()
	s.Memcached(foreignUnlock, name)
	if err := <-told; err != nil {
		t.Errorf("await = %v", err)
	}
	holds(t, d, claim(name, "next"))
}

// Another program deletes a lock of stile's, and a third takes it. The holder notices this, and neither its renewal nor its
// release changes the third's lock.
func TestPlainForeignDelete(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t)
	d := open(t, s.Addr, "?layout=plain")
	for what, theft := range map[string]string{
		"deleted":              foreignUnlock,
		"deleted and taken":    foreignUnlock + "add %[1]s 0 60 6\r\ntheirs\r\n",
		"overwritten":          "set %s 0 60 6\r\ntheirs\r\n",
		"overwritten by alike": "set %s 0 60 20\r\n{\"stile\":1,\"id\":\"b\"}\r\n",
	} {
		c := claim("theft", "a")
		holds(t, d, c)
		s.Memcached(theft, "theft")
		before := s.Memcached("mg theft c v\r\n")
		gone(t, d, c)
		if after := s.Memcached("mg theft c v\r\n"); after != before {
			t.Errorf("%s: the value was %q and is %q; want it untouched", what, before, after)
		}
		s.Memcached(foreignUnlock, "theft")
	}
}

// A holder that comes back after its lease ran out does not disturb the present holder.
func TestPlainLateHolder(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t)
	old, next := open(t, s.Addr, "?layout=plain"), open(t, s.Addr, "?layout=plain")
	late, holder := claim("name", "late"), claim("name", "holder")
	late.TTL, late.Wait = time.Second, time.Second
	holds(t, old, late)
	servertest.Until(t, "the lease is over", func() bool { return enter(t, next, holder).Holds })
	late.TTL = time.Minute
	gone(t, old, late)
	if err := renew(t, next, holder); err != nil {
		t.Errorf("renewal of the holder = %v; want nil", err)
	}
}

// The lease ends and another claim holds between the read and the deletion of a release. The deletion is for the version
// that was read.
func TestPlainReleaseRaces(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t)
	d := open(t, s.Addr, "?layout=plain").(*Plain)
	c := claim("name", "a")
	holds(t, d, c)
	times := 0
	err := d.own(timely(t), c, func(is *sight, key string) (bool, error) {
		times++
		s.Memcached("delete name\r\nadd name 0 60 6\r\ntheirs\r\n")
		return d.remove(timely(t), is, key)
	})
	if !errors.Is(err, driver.ErrGone) || times != 1 {
		t.Errorf("release = %v after %d tries; want ErrGone after one", err, times)
	}
	if got := s.Memcached("get name\r\n"); !strings.Contains(got, "theirs") {
		t.Errorf("the value is %q; want the next holder's", got)
	}
}

func TestPlainDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t)
	d := open(t, s.Addr, "?layout=plain")
	s.Memcached("add endless 0 0 1\r\n1\r\n") // as ShedLock does with less than a second
	c := claim("endless", "waits")
	c.TTL, c.Wait = 200*time.Millisecond, 200*time.Millisecond
	try := *c
	try.ID, try.Try = "tries", true
	if p := waits(t, d, &try); p.Ticket != 0 || p.Blocker.Remaining != 0 {
		t.Errorf("try = %+v; want it refused, with a time left that is not known", p)
	}
	waits(t, d, c)
	var err error
	servertest.Until(t, "the wait is given up", func() bool {
		_, err = d.Enter(timely(t), c)
		return err != nil
	})
	if !errors.Is(err, driver.ErrForeign) {
		t.Errorf("enter = %v; want ErrForeign", err)
	}
	says(t, err, `"endless"`, "never expires")
	if s, err := d.Break(timely(t), &driver.BreakRequest{Name: "endless"}); err != nil || !s.Holds {
		t.Errorf("break = %+v, %v; want it to remove another program's lock", s, err)
	}
	holds(t, d, claim("endless", "after"))
}

// The server takes 30 days and more for a date, so that such a lock would be free at once. It is refused instead.
func TestThirtyDays(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t)
	s.Memcached("add old 0 2678400 1\r\n1\r\n")
	if got := s.Memcached("mg old\r\n"); got != "EN\r\n" {
		t.Errorf("a value added for 31 days is %q; want it gone at once", got)
	}
	month := 31 * 24 * time.Hour
	plain := open(t, s.Addr, "?layout=plain")
	c := claim("plain", "a")
	holds(t, plain, c)
	long := *c
	long.TTL = month
	_, enters := plain.Enter(timely(t), &long)
	for what, err := range map[string]error{
		"enter": enters,
		"renew": renew(t, plain, &long),
		"keep":  plain.Leave(timely(t), &driver.Release{Claim: c, Keep: month}),
	} {
		says(t, err, "30 days or more as a date")
		if !driver.NotApplied(err) {
			t.Errorf("%s = %v; want it marked as definite", what, err)
		}
	}
	if err := renew(t, plain, c); err != nil {
		t.Errorf("renewal after what was refused = %v; want nil", err)
	}

	// A queue's times are all dates.
	queue := open(t, s.Addr, "")
	held := claim("queue", "a")
	holds(t, queue, held)
	if err := queue.Leave(timely(t), &driver.Release{Claim: held, Keep: month}); err != nil {
		t.Errorf("leave with a month to keep = %v", err)
	}
	list, err := queue.List(timely(t), &driver.Query{Name: "queue"})
	if err != nil || len(list) != 1 || list[0].Claims[0].Remaining < month-time.Minute {
		t.Errorf("list = %+v, %v; want the lock to be taken for a month", list, err)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t)
	canary := "set canary 0 0 2\r\nhi\r\n"
	s.Memcached("%s", canary)
	for _, parameters := range []string{"", "?layout=plain", "?prefix=app:", "?layout=plain&prefix=plain:"} {
		d := open(t, s.Addr, parameters)
		names := []string{
			"plain", "a b", "ü", strings.Repeat("x", 250), strings.Repeat("x", 251), strings.Repeat("x", 255),
			strings.Repeat(" ", 255), strings.Repeat("ü", 127), "\u00a0", "flush_all", "%20", digest("a b"), "#", "*",
		}
		keys := map[string]string{}
		for _, name := range names {
			key := keyOf(d, name)
			if len(key) > maxKey || strings.ContainsAny(key, " \r\n\t\x00\x7f") {
				t.Errorf("%s: the key of %q is %q, which is no key", parameters, name, key)
			}
			if other, taken := keys[key]; taken && other != digest("a b") && name != digest("a b") {
				t.Errorf("%s: %q and %q have one key", parameters, name, other)
			}
			keys[key] = name
			if name == digest("a b") && strings.Contains(parameters, "plain") {
				continue // a lock with this name has the other's key
			}
			holds(t, d, claim(name, "a"))
		}
	}
	if got := s.Memcached("mg canary\r\n"); got != "HD\r\n" {
		t.Errorf("the canary is %q; want it alive", got)
	}
}

// A foreign value at the key of the queue: no claim holds, and the value does not change.
func TestForeignValues(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t)
	d := open(t, s.Addr, "")
	for what, test := range map[string]struct{ value, says string }{
		"text":           {"1", "another program's"},
		"another object": {`{"a":1}`, "another program's"},
		"newer layout":   {`{"stile":2}`, "its layout is version 2"},
		"another name's": {`{"stile":1,"name":"x"}`, "another name's"},
		"damaged":        {`{"stile":1,"name":"name","claims":[{}]}`, "damaged"},
		"endless":        {`{"stile":1,"name":"name"}`, "never expires"},
	} {
		seconds := 60
		if what == "endless" {
			seconds = 0
		}
		s.Memcached("set stile/name 0 %d %d\r\n%s\r\n", seconds, len(test.value), test.value)
		c := claim("name", "a")
		_, enters := d.Enter(timely(t), c)
		_, lists := d.List(timely(t), &driver.Query{Name: "name"})
		_, breaks := d.Break(timely(t), &driver.BreakRequest{Name: "name"})
		_, awaits := d.Await(timely(t), c)
		for verb, err := range map[string]error{
			"enter": enters, "renew": renew(t, d, c), "leave": leave(t, d, c), "list": lists, "break": breaks, "await": awaits,
		} {
			text := fmt.Sprint(err)
			if !errors.Is(err, driver.ErrForeign) || !strings.Contains(text, test.says) || !strings.Contains(text, `"stile/name"`) {
				t.Errorf("%s: %s = %v; want ErrForeign with %q and the key", what, verb, err, test.says)
			}
		}
		if list, err := d.List(timely(t), &driver.Query{}); err != nil || len(list) != 0 {
			t.Errorf("%s: list of all = %+v, %v; want it left out", what, list, err)
		}
		if got := s.Memcached("mg stile/name v\r\n"); !strings.Contains(got, test.value) {
			t.Errorf("%s: the value is %q; want it untouched", what, got)
		}
	}
	s.Memcached("delete stile/name\r\n")
	holds(t, d, claim("name", "b"))
}

// Another program deletes the queue, or overwrites it. Holders learn of this, and no claim enters twice.
func TestForeignChanges(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t)
	d, other := open(t, s.Addr, ""), open(t, s.Addr, "")
	c := claim("name", "a")
	holds(t, d, c)
	s.Memcached("delete stile/name\r\n")
	b := claim("name", "b")
	holds(t, other, b)
	gone(t, d, c)
	if err := renew(t, other, b); err != nil {
		t.Errorf("renewal of the next holder = %v; want nil", err)
	}
	s.Memcached("append stile/name 0 0 1\r\n!\r\n")
	if err := renew(t, other, b); !errors.Is(err, driver.ErrForeign) {
		t.Errorf("renewal of a damaged queue = %v; want ErrForeign", err)
	}
}
