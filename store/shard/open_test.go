package shard_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/memory"
)

func init() {
	driver.Register("down", func(_ context.Context, a *driver.Address) (driver.Driver, error) {
		if found, ok := sites.Load(a.Path); ok {
			s := found.(*site)
			s.tries.Add(1)
			if s.up.Load() {
				return &declaring{s.store.Driver(), s.changes}, nil
			}
		}
		return nil, driver.Unreachable(errors.New("nobody is there"))
	})
}

// A site is a store that may be unreachable.
type site struct {
	store   *memory.Store
	up      atomic.Bool
	tries   atomic.Int64
	changes func(*driver.Traits)
}

var sites sync.Map // by the path of their URL

// newSite returns a store that cannot be reached yet, and its URL.
func newSite(changes func(*driver.Traits)) (*site, string) {
	s := &site{store: memory.NewStore(), changes: changes}
	path := rand.Text()
	sites.Store(path, s)
	return s, "down:///" + path
}

// A declaring driver has other traits than memory.
type declaring struct {
	*memory.Driver
	change func(*driver.Traits)
}

func (d *declaring) Traits() driver.Traits {
	t := d.Driver.Traits()
	if d.change != nil {
		d.change(&t)
	}
	return t
}

// claim returns an exclusive claim.
func claim(name, id string) *driver.Claim {
	return &driver.Claim{
		Name: name, ID: id, Client: "client-of-" + id, Weight: driver.All, Capacity: driver.All,
		TTL: 10 * time.Second, Wait: 10 * time.Second, Record: "record of " + id,
	}
}

func openURL(t testing.TB, url string) driver.Driver {
	t.Helper()
	d, err := driver.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// where returns which of some stores in memory, by URL, have claims of a name.
func where(t testing.TB, name string, urls ...string) (found []string) {
	t.Helper()
	for _, url := range urls {
		list, err := openURL(t, url).(driver.Lister).List(t.Context(), &driver.Query{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) > 0 {
			found = append(found, url)
		}
	}
	return found
}

// The places of names in the stores a, b and c, whose weight is 2, are the same by file and by address.
func TestOpen(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "stores")
	text := "# the stores of the shop\n\na=memory://open-a\n  b=memory://open-b  \nc*2=memory://open-c\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	urls := []string{"memory://open-a", "memory://open-b", "memory://open-c"}
	for _, url := range []string{"shard://" + file, "shard://?stores=a=memory://open-a;b=memory://open-b;c*2=memory://open-c"} {
		d := openURL(t, url)
		for name, want := range map[string]int{"orders/42": 0, "deploy": 1, "report": 2} {
			c := claim(name, url)
			enter(t, d, c)
			if got := where(t, name, urls...); len(got) != 1 || got[0] != urls[want] {
				t.Errorf("%s: %s is in %q; want it in %s", url, name, got, urls[want])
			}
			if err := d.Leave(t.Context(), &driver.Release{Claim: c}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// With a previous list, by file or by address, a moving name is held in both stores.
func TestOpenInMove(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "stores")
	text := "b=memory://move-b\nc*2=memory://move-c\nprevious:\na=memory://move-a\nb\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	urls := []string{"memory://move-a", "memory://move-b", "memory://move-c"}
	for _, url := range []string{"shard://" + file, "shard://?stores=b=memory://move-b;c*2=memory://move-c&previous=a=memory://move-a;b"} {
		d := openURL(t, url)
		for name, want := range map[string]string{"report": "memory://move-a memory://move-c", "deploy": "memory://move-b"} {
			c := claim(name, url)
			enter(t, d, c)
			if got := strings.Join(where(t, name, urls...), " "); got != want {
				t.Errorf("%s: %s is in %s; want it in %s", url, name, got, want)
			}
			if err := d.Leave(t.Context(), &driver.Release{Claim: c}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "shard://" + path
	}
	const hidden = " (the text is not shown: it may hold a password)"
	tests := []struct{ url, want string }{
		{"shard://", "either the path of a file with the stores, or parameter stores"},
		{"shard://host/path", "no user and no host"},
		{"shard:///file?stores=a=memory://", "either the path of a file with the stores, or parameter stores"},
		{"shard:///file?previous=a", "the file has a part for it"},
		{"shard:///nowhere/at/all", "no such file"},
		{"shard://?other=1", `unknown parameter "other" for shard://; known: create, previous, stores`},
		{"shard://?stores=redis://u:hunter2@h", "parameter stores: store 1 is not written as NAME=URL, with a NAME of letters, digits, '-', '_' and '.'" + hidden},
		{"shard://?stores=a=memory://;=redis://u:hunter2@h", "parameter stores: store 2 is not written as NAME=URL"},
		{"shard://?stores=a*0=memory://u:hunter2@h", "store 1 has a weight that is not a number from 1 to 100" + hidden},
		{"shard://?stores=a*101=memory://", "from 1 to 100"},
		{"shard://?stores=a*hunter2=memory://", "from 1 to 100"},
		{"shard://?stores=a=redis+cluster://u:hunter2@h", "has a space in its scheme: in a parameter, + is written %2B" + hidden},
		{"shard://?stores=a", "store a has no URL"},
		{"shard://?stores=a=memory://one&previous=b", "store b has no URL"},
		{"shard://?stores=a=memory://one&previous=a=memory://hunter2", "store a has two URLs"},
		{"shard://?stores=a=memory://one;a=memory://one", "two stores are called a"},
		{"shard://?stores=a=memory://one;b=memory://one", "stores a and b are one, by their URL"},
		{"shard://?stores=a=memory://one&previous=b=memory://one", "stores a and b are one, by their URL"},
		{"shard://?stores=;", "at least one store"},
		{"shard://?stores=a=memory://u:hunter2@h", "store a: a memory:// URL is"},
		{"shard://?stores=a=mystery://u:hunter2@h", `store a: unknown store "mystery"`},
		{"shard://?stores=a=hunter2", "store a: the store's URL must begin with a scheme"},
		{write("empty", "# nothing\n"), "at least one store"},
		{write("bad", "a=memory://one\nredis://u:hunter2@h\n"), "store 2 is not written as NAME=URL"},
	}
	for _, test := range tests {
		d, err := driver.Open(t.Context(), test.url)
		if err == nil {
			d.Close()
			t.Errorf("open %s = nil; want an error that says %q", test.url, test.want)
			continue
		}
		if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") || !driver.NotApplied(err) || strings.Contains(err.Error(), "\n") {
			t.Errorf("open %s = %v; want a definite error that says %q", test.url, err, test.want)
		}
	}
	_, err := driver.Open(t.Context(), "shard://?stores=a=down:///x;b=down:///y")
	if !driver.IsUnreachable(err) || !strings.Contains(err.Error(), "store a: nobody is there") {
		t.Errorf("open with nobody there = %v; want it to say so of store a", err)
	}
}

// A store that is down does not prevent the others from being opened, and is opened when it is there.
func TestOpenWithOneDown(t *testing.T) {
	t.Parallel()
	s, url := newSite(nil)
	d := openURL(t, "shard://?stores=a=memory://;b=memory://?prefix=b;c*2="+url)
	if p := enter(t, d, claim("deploy", "1")); !p.Holds { // in store b
		t.Errorf("enter where a store is up = %+v; want a place that holds", p)
	}
	c := claim("report", "2") // in store c
	_, err := d.Enter(t.Context(), c)
	if !driver.NotApplied(err) || !driver.IsUnreachable(err) || !strings.Contains(err.Error(), "store c: nobody is there") {
		t.Errorf("enter where the store is down = %v; want a definite error that says so", err)
	}
	if _, err := d.(driver.Lister).List(t.Context(), &driver.Query{}); err == nil || !strings.Contains(err.Error(), "store c") {
		t.Errorf("list of all = %v; want the error of store c", err)
	}
	if a := d.Renew(t.Context(), []*driver.Claim{claim("deploy", "1"), c}); a[0].Err != nil || !driver.IsUnreachable(a[1].Err) {
		t.Errorf("renewals = %+v; want the first alone", a)
	}
	if n := s.tries.Load(); n != 1 {
		t.Errorf("the store was tried %d times within a moment; want once", n)
	}
	s.up.Store(true)
	servertest.Until(t, "the store is opened", func() bool {
		p, err := d.Enter(t.Context(), c)
		return err == nil && p.Holds
	})
	if got, err := d.(driver.Lister).List(t.Context(), &driver.Query{}); err != nil || len(got) != 2 {
		t.Errorf("list of all = %+v, %v; want two names", got, err)
	}
	if st, err := d.(driver.Breaker).Break(t.Context(), &driver.BreakRequest{Name: "report"}); err != nil || st.Record != c.Record {
		t.Errorf("break = %+v, %v; want the claim", st, err)
	}
}

// The traits that the driver had when it was opened stay true.
func TestLateStoreThatPromisesLess(t *testing.T) {
	t.Parallel()
	s, url := newSite(func(t *driver.Traits) { t.Granularity = time.Millisecond / 2 })
	d := openURL(t, "shard://?stores=a=memory://;b=memory://?prefix=b;c*2="+url)
	s.up.Store(true)
	var err error
	servertest.Until(t, "the store is tried again", func() bool {
		_, err = d.Enter(t.Context(), claim("report", "1"))
		return s.tries.Load() > 1
	})
	if !driver.NotApplied(err) || driver.IsUnreachable(err) || !strings.Contains(err.Error(), "store c: the store promises less") {
		t.Errorf("enter = %v; want it refused for good", err)
	}
}

func TestCloseBeforeAllAreOpen(t *testing.T) {
	t.Parallel()
	s, url := newSite(nil)
	d := openURL(t, "shard://?stores=a=memory://;b=memory://?prefix=b;c*2="+url)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	s.up.Store(true)
	for _, name := range []string{"deploy", "report"} {
		if _, err := d.Enter(t.Context(), claim(name, "1")); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("enter %s after close = %v; want ErrClosed", name, err)
		}
	}
	if n := s.tries.Load(); n != 1 {
		t.Errorf("the store was tried %d times; want not after close", n)
	}
}
