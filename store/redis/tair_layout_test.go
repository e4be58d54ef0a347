package redis

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

// A tairServer is a server with the commands of TairString: the real one that the environment names, or an imitation.
type tairServer struct {
	url string
	*servertest.RedisConn
	t *testing.T
}

func newTairServer(t *testing.T) *tairServer {
	t.Helper()
	var addr string
	if text := os.Getenv("STILE_TEST_TAIR"); text != "" {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal("STILE_TEST_TAIR is not a URL")
		}
		addr = u.Host
	} else {
		addr = servertest.Tair(t).Addr
	}
	c, err := servertest.DialRedis(addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &tairServer{"tair://" + addr, c, t}
}

// do runs a command as another client.
func (s *tairServer) do(args ...string) string {
	s.t.Helper()
	got, err := s.Do(args...)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(got)
}

// open opens a driver of a layout.
func (s *tairServer) open(layout string) driver.Driver {
	s.t.Helper()
	d, err := driver.Open(timely(s.t), s.url+"?layout="+layout)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { d.Close() })
	return d
}

// overtakes enters a claim repeatedly until the one before has run out.
func overtakes(t *testing.T, d driver.Driver, c *driver.Claim) {
	t.Helper()
	servertest.Until(t, "the next claim holds", func() bool {
		p, err := d.Enter(timely(t), c)
		return err == nil && p.Holds
	})
}

// Locks by version have a hole: if versions begin at 1 for each holder, a late one can delete its successor's lock. The
// version of a stile lock is its ticket.
func TestExSetVersionsAreTickets(t *testing.T) {
	t.Parallel()
	s := newTairServer(t)

	naive := "naive" + rand.Text()
	s.do("EXSET", naive, "A", "NX", "PX", "50")
	servertest.Until(t, "the first lease is over", func() bool {
		return s.do("EXSET", naive, "B", "NX", "PX", "60000") == "OK"
	})
	if got := s.do("EXCAD", naive, "1"); got != "1" {
		t.Errorf("EXCAD of the first holder = %s; want 1, the hole", got)
	}

	d := s.open(layoutExSet)
	name := "name" + rand.Text()
	late, next := claim(name, "late"), claim(name, "next")
	late.TTL = 3 * time.Second
	first := enter(t, d, late).Ticket
	if got, want := s.do("EXGET", name), fmt.Sprintf("%d]", first); !strings.HasSuffix(got, want) {
		t.Errorf("EXGET = %s; want version %s", got, want)
	}
	overtakes(t, d, next)
	second := enter(t, d, next).Ticket
	if second <= first {
		t.Errorf("the next ticket is %d; want above %d", second, first)
	}
	if err := d.Leave(timely(t), &driver.Release{Claim: late}); !errors.Is(err, driver.ErrGone) {
		t.Errorf("late leave = %v; want ErrGone", err)
	}
	for _, version := range []int64{1, first} {
		if got := s.do("EXCAD", name, fmt.Sprint(version)); got != "0" {
			t.Errorf("EXCAD of version %d = %s; want 0", version, got)
		}
	}
	if err := renew(t, d, next); err != nil {
		t.Errorf("renewal = %v; want nil", err)
	}
	if got, want := s.do("EXGET", name), fmt.Sprintf("%d]", second); !strings.HasSuffix(got, want) {
		t.Errorf("EXGET after a renewal = %s; want version %s still", got, want)
	}
}

// stile and clients that lock by EXSET NX exclude each other.
func TestExSetExcludesOthers(t *testing.T) {
	t.Parallel()
	s := newTairServer(t)
	d := s.open(layoutExSet)
	name := "name" + rand.Text()
	ours := claim(name, "ours")
	enter(t, d, ours)
	if got := s.do("EXSET", name, "theirs", "NX", "PX", "60000"); got != "<nil>" {
		t.Errorf("another's EXSET NX = %s while stile holds; want nil", got)
	}
	leave(t, d, ours)
	if got := s.do("EXSET", name, "theirs", "NX", "PX", "60000"); got != "OK" {
		t.Errorf("another's EXSET NX = %s after stile's release; want OK", got)
	}
	waits := claim(name, "waits")
	if p := enter(t, d, waits); p.Holds || p.Retry < 50*time.Second {
		t.Errorf("enter = %+v; want it behind another's lock", p)
	}
	if got := s.do("EXCAD", name, "1"); got != "1" {
		t.Errorf("another's EXCAD = %s; want 1", got)
	}
	if p := await(t, d, waits); !p.Holds {
		t.Errorf("await = %+v; want a place that holds", p)
	}
}

// A lock that somebody overwrote is lost, even if the new value equals the old one.
func TestTairIsLostWhenOthersTakeIt(t *testing.T) {
	t.Parallel()
	s := newTairServer(t)
	for layout, thefts := range map[string]map[string]func(name string){
		layoutExSet: {
			"deletes":            func(name string) { s.do("DEL", name) },
			"overwrites":         func(name string) { s.do("EXSET", name, "theirs") },
			"compares and sets":  func(name string) { s.do("EXCAS", name, "theirs", version(s, name)) },
			"writes it as it is": func(name string) { s.do("EXSET", name, value(s, name)) },
			"sets its version":   func(name string) { s.do("EXSETVER", name, "5") },
			"sets a string":      func(name string) { s.do("SET", name, "theirs") },
		},
		layoutSetNX: {
			"deletes":           func(name string) { s.do("DEL", name) },
			"overwrites":        func(name string) { s.do("SET", name, "theirs") },
			"compares and sets": func(name string) { s.do("CAS", name, s.do("GET", name), "theirs") },
			"sets another type": func(name string) { s.do("DEL", name); s.do("EXSET", name, "theirs") },
		},
	} {
		d := s.open(layout)
		for what, theft := range thefts {
			renewed, left := claim("renewed"+rand.Text(), "a"), claim("left"+rand.Text(), "b")
			enter(t, d, renewed)
			enter(t, d, left)
			theft(renewed.Name)
			theft(left.Name)
			if err := renew(t, d, renewed); !errors.Is(err, driver.ErrGone) {
				t.Errorf("%s, %s: renewal = %v; want ErrGone", layout, what, err)
			}
			before := s.do("DUMP", left.Name)
			err := d.Leave(timely(t), &driver.Release{Claim: left})
			if !errors.Is(err, driver.ErrGone) && !errors.Is(err, driver.ErrForeign) {
				t.Errorf("%s, %s: leave = %v; want ErrGone or ErrForeign", layout, what, err)
			}
			if s.do("DUMP", left.Name) != before {
				t.Errorf("%s, %s: the leave changed what is another's", layout, what)
			}
		}
	}
}

func version(s *tairServer, name string) string {
	found, err := s.Do("EXGET", name)
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprint(found.([]any)[1])
}

func value(s *tairServer, name string) string {
	found, err := s.Do("EXGET", name)
	if err != nil {
		s.t.Fatal(err)
	}
	return found.([]any)[0].(string)
}

// In layout setnx a claim is renewed and released by CAS and CAD where these suffice, and by scripts otherwise. So a user
// who may not run scripts can renew and release claims.
func TestTairCompares(t *testing.T) {
	t.Parallel()
	s := newTairServer(t)
	d := s.open(layoutSetNX).(*tairCAS)
	keys := []string{"a" + rand.Text(), "b" + rand.Text(), "c" + rand.Text(), "d" + rand.Text()}
	plain, delayed, kept, shorter := claim(keys[0], "1"), claim(keys[1], "2"), claim(keys[2], "3"), claim(keys[3], "4")
	plain.Owner, plain.Record = "job/é 1\n", "a record\nof two lines"
	delayed.Delay = time.Minute
	for _, c := range []*driver.Claim{plain, delayed, kept, shorter} {
		enter(t, d, c)
	}
	shorter.TTL /= 2

	scripts := *d.scripts
	none := conn.NewScript("return redis.error_reply('ERR no scripts here')", nil)
	d.scripts = &valueScripts{none, none, none, none, none, none}
	for c, byCommand := range map[*driver.Claim]bool{plain: true, kept: true, delayed: false, shorter: false} {
		if err := renew(t, d, c); (err == nil) != byCommand {
			t.Errorf("renewal of %s = %v; want it by a command: %v", c.ID, err, byCommand)
		}
	}
	leave(t, d, plain)
	if err := d.Leave(timely(t), &driver.Release{Claim: kept, Keep: time.Minute}); err != nil {
		t.Errorf("leave with keep = %v; want nil", err)
	}
	if err := d.Leave(timely(t), &driver.Release{Claim: delayed}); err == nil {
		t.Error("leave with a lock-delay = nil; want it by a script")
	}
	d.scripts = &scripts

	if got := s.do("EXISTS", keys[0]); got != "0" {
		t.Errorf("the key of a claim that left is there")
	}
	list, err := d.List(timely(t), &driver.Query{Name: keys[2]})
	if err != nil || len(list) != 1 || !list[0].Claims[0].Left {
		t.Errorf("list of what is kept = %+v, %v; want a claim that left", list, err)
	}
	for _, c := range []*driver.Claim{delayed, shorter} {
		if err := renew(t, d, c); err != nil {
			t.Errorf("renewal of %s by a script = %v; want nil", c.ID, err)
		}
		leave(t, d, c)
	}
	if n := len(d.held); n != 0 {
		t.Errorf("%d claims are remembered after all have left", n)
	}
}

// The client forgets claims that nobody released.
func TestHeldClaimsAreClearedAway(t *testing.T) {
	t.Parallel()
	s := &tairCAS{held: map[string]*heldClaim{}}
	for i := range 640 {
		c := claim("x", fmt.Sprint(i))
		c.TTL = -time.Second // over at once
		s.noteValue(c, 1)
		if n := len(s.held); n > 128 {
			t.Fatalf("%d are remembered after %d; want at most 128", n, i+1)
		}
	}
}

// Redis lacks Tair's commands: the queue needs none, layout setnx works without them, and layout exset fails.
func TestTairOnRedis(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	for _, layout := range []string{layoutQueue, layoutSetNX} {
		d, err := driver.Open(timely(t), "tair://"+s.Addr+"?layout="+layout)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		traits := d.Traits()
		if traits.Store != "tair" {
			t.Errorf("layout %s: the store is %q; want tair", layout, traits.Store)
		}
		noted := strings.Contains(strings.Join(traits.Remarks(), "\n"), "no commands CAS and CAD")
		if noted != (layout == layoutSetNX) {
			t.Errorf("layout %s: the notes are %q", layout, traits.Remarks())
		}
		c := claim("name", layout)
		enter(t, d, c)
		if err := renew(t, d, c); err != nil {
			t.Errorf("layout %s: renewal = %v; want nil", layout, err)
		}
		leave(t, d, c)
	}
	_, err := driver.Open(timely(t), "tair://"+s.Addr+"?layout=exset")
	says(t, err, "layout exset needs TairString", "no command EXGET, EXSET, EXCAD", "layout setnx")
	if !driver.NotApplied(err) || driver.IsUnreachable(err) {
		t.Errorf("open = %v; want it definite", err)
	}
}

func TestTairRefusesURLs(t *testing.T) {
	t.Parallel()
	s := newTairServer(t)
	host, port, _ := net.SplitHostPort(strings.TrimPrefix(s.url, "tair://"))
	for url, want := range map[string][]string{
		"tair://h1,h2":                                   {"tair:// takes one host"},
		s.url + "?layout=hash":                           {`"hash" is none of queue, setnx and exset`},
		s.url + "?frob=1":                                {`unknown parameter "frob" for tair://`},
		"tair://u:hunter2@" + host + ":" + port:          {"does not accept"},
		"redis://" + host + ":" + port + "?layout=exset": {`"exset"`},
	} {
		_, err := driver.Open(timely(t), url)
		says(t, err, want...)
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("open %s: the error %v has the password", url, err)
		}
	}
}

func TestTairByTLS(t *testing.T) {
	t.Parallel()
	s, authority := servertest.RedisTLS(t)
	d := open(t, "tairs://"+s.Addr+"?tls_ca="+authority)
	c := claim("name", "1")
	enter(t, d, c)
	leave(t, d, c)
}

// After one client amends a lock, another renews and releases it, also by a command that compares the whole value.
func TestTairAmendedByAnotherClient(t *testing.T) {
	t.Parallel()
	s := newTairServer(t)
	for _, layout := range []string{layoutSetNX, layoutExSet} {
		a, b := s.open(layout), s.open(layout)
		for _, last := range []string{"renewal", "release"} {
			c := claim("amended"+rand.Text(), "holder")
			c.Record = "first"
			c.Ticket = enter(t, a, c).Ticket
			amended := *c
			amended.Amend = &driver.Amendment{Record: "second"}
			if err := renew(t, b, &amended); err != nil {
				t.Fatalf("%s: amendment by another client = %v; want nil", layout, err)
			}
			if last == "renewal" {
				if err := renew(t, a, c); err != nil {
					t.Errorf("%s: renewal of what another client amended = %v; want nil", layout, err)
				}
			}
			leave(t, a, c)
			if got := s.do("EXISTS", c.Name); got != "0" {
				t.Errorf("%s: the key stands after a %s and a release; want it gone", layout, last)
			}
		}
	}
}
