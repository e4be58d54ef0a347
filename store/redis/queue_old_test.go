package redis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

// oldClient opens a driver that runs the scripts of a version before the long form, unchanged.
func oldClient(t *testing.T, url string) *Driver {
	t.Helper()
	script := func(files ...string) *conn.Script {
		var text strings.Builder
		for _, file := range files {
			part, err := os.ReadFile(filepath.Join("testdata", "93f5926", file+".lua"))
			if err != nil {
				t.Fatal(err)
			}
			text.Write(part)
		}
		own := map[string]string{
			"PUBLISH": "'PUBLISH'", "SHARDED": strconv.FormatBool(false), "HEADCLAIM": "'>c6I4ddI4dddBI2I2I2I2'",
		}
		return conn.NewScript(words.ReplaceAllStringFunc(text.String(), func(word string) string {
			switch {
			case own[word] != "":
				return own[word]
			case constants[word] != "":
				return constants[word]
			}
			return word
		}), nil)
	}
	d := open(t, url)
	d.scripts = &queueScripts{
		enter:  script("args", "load", "enter_lone", "rule", "enter"),
		stay:   script("args", "load", "rule", "enter"),
		renew:  script("load", "rule", "renew"),
		leave:  script("load", "leave_lone", "rule", "leave"),
		remove: script("load", "rule", "break"),
		list:   script("load", "rule", "list"),
	}
	return d
}

// many returns claims of different clients on one name.
func many(who string, n int) (cs []*driver.Claim) {
	for i := range n {
		cs = append(cs, claim("name", fmt.Sprint(who, "-", i)))
	}
	return cs
}

// form returns the beginning of the name's value.
func form(s *servertest.Server, d *Driver) string {
	raw, _ := s.Redis([]string{"GET", d.key("name")}).(string)
	return raw[:min(6, len(raw))]
}

// A client of an older version and clients of this one exclude each other, in any order and number.
func TestOldClients(t *testing.T) {
	t.Parallel()
	t.Run("an older claim is there", func(t *testing.T) {
		t.Parallel()
		s := servertest.Redis(t)
		before, now := oldClient(t, "redis://"+s.Addr), open(t, "redis://"+s.Addr)
		holder, waiter, cs := claim("name", "holder"), claim("name", "waiter"), many("new", 20)
		enter(t, before, holder)
		for i, c := range cs {
			if i == 10 {
				enter(t, before, waiter)
			}
			if p := enter(t, now, c); p.Holds {
				t.Fatalf("%s holds beside an older client", c.ID)
			}
		}
		if got := form(s, now); got != "stile1" {
			t.Errorf("the value begins with %q while an older client's claim is in it", got)
		}
		if err := renew(t, before, holder); err != nil {
			t.Errorf("the older client's renewal = %v", err)
		}
		leave(t, before, holder)
		for _, c := range cs[:10] {
			if p := enter(t, now, c); !p.Holds {
				t.Fatalf("%s does not hold: %+v", c.ID, p)
			}
			leave(t, now, c)
		}
		if p := enter(t, before, waiter); !p.Holds {
			t.Fatalf("the older client does not hold: %+v", p)
		}
		if p := enter(t, now, cs[10]); p.Holds {
			t.Error("a newer client holds beside the older one")
		}
		leave(t, before, waiter)
		if got := form(s, now); got != "stile1" {
			t.Errorf("an older client left, and the value begins with %q", got)
		}
		last := claim("name", "last")
		enter(t, now, last)
		if got := form(s, now); got != "stile2" {
			t.Errorf("no older client is there, and the value begins with %q", got)
		}
		for _, c := range append(cs[10:], last) {
			if p := enter(t, now, c); !p.Holds {
				t.Fatalf("%s does not hold: %+v", c.ID, p)
			}
			leave(t, now, c)
		}
	})

	t.Run("the queue is long", func(t *testing.T) {
		t.Parallel()
		s := servertest.Redis(t)
		before, now := oldClient(t, "redis://"+s.Addr), open(t, "redis://"+s.Addr)
		cs := many("new", 12)
		for _, c := range cs {
			enter(t, now, c)
		}
		raw := s.Redis([]string{"DUMP", now.key("name")})
		c := claim("name", "old")
		_, entered := before.Enter(timely(t), c)
		try := claim("name", "try")
		try.Try = true
		_, tried := before.Enter(timely(t), try)
		_, broken := before.Break(timely(t), &driver.BreakRequest{Name: "name"})
		_, listed := before.List(timely(t), &driver.Query{Name: "name"})
		for verb, err := range map[string]error{
			"enter": entered, "try": tried, "break": broken, "list": listed, "renew": renew(t, before, c),
			"leave": before.Leave(timely(t), &driver.Release{Claim: c}),
		} {
			if !errors.Is(err, driver.ErrForeign) || !driver.NotApplied(err) {
				t.Errorf("an older client's %s = %v; want ErrForeign", verb, err)
			}
		}
		if s.Redis([]string{"DUMP", now.key("name")}) != raw {
			t.Error("an older client has changed a long queue")
		}
		for _, c := range cs[:8] {
			if p := enter(t, now, c); !p.Holds {
				t.Fatalf("%s does not hold: %+v", c.ID, p)
			}
			leave(t, now, c)
		}
		if p := enter(t, before, c); p.Holds || p.Ahead != 4 || p.Ticket <= cs[11].Ticket {
			t.Errorf("the queue is short again, and an older client's place = %+v", p)
		}
	})

	t.Run("a step back", func(t *testing.T) {
		t.Parallel()
		s := servertest.Redis(t)
		before, now := oldClient(t, "redis://"+s.Addr), open(t, "redis://"+s.Addr)
		var last int64
		for _, c := range many("new", 12) {
			c.TTL, c.Wait = 3*time.Second, 3*time.Second // all of them are there when the last one enters
			last = enter(t, now, c).Ticket
		}
		c := claim("name", "old")
		var p driver.Place
		servertest.Until(t, "the claims of the newer clients have run out", func() (done bool) {
			var err error
			p, err = before.Enter(timely(t), c)
			if err != nil && !errors.Is(err, driver.ErrForeign) {
				t.Fatal(err)
			}
			return err == nil
		})
		if !p.Holds || p.Ticket <= last {
			t.Errorf("the older client's place = %+v; want it to hold, with a ticket above %d", p, last)
		}
	})
}
