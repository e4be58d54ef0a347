package inspect

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
	_ "github.com/stilelock/stile/store/sqlite"
)

// A walk is the locks of one goroutine, each under the ones before it: "a" is a mutex, "r:a" a reader, "p:a" one of
// two permits.
type walk []string

func lockOf(c *stile.Client, step string) *stile.Lock {
	switch kind, name, found := strings.Cut(step, ":"); {
	case !found:
		return c.Mutex(step)
	case kind == "r":
		return c.Reader(name)
	default:
		return c.Permit(name, 1, 2)
	}
}

// walkers has programs of some goroutines each take their first locks, and then go on, and returns when that many claims
// wait.
func walkers(t *testing.T, open func() *stile.Client, waiting int, programs ...[]walk) *stile.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	var group sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	var rest []func()
	for _, goroutines := range programs {
		c := open()
		for _, w := range goroutines {
			first, err := lockOf(c, w[0]).Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			rest = append(rest, func() {
				defer func() { _ = first.Unlock() }()
				under := first.Context()
				for _, step := range w[1:] {
					wait, stop := context.WithCancel(under)
					context.AfterFunc(ctx, stop)
					lease, err := lockOf(c, step).Lock(wait)
					if err != nil {
						return
					}
					defer func() { _ = lease.Unlock() }()
					under = lease.Context()
				}
				<-ctx.Done()
			})
		}
	}
	for _, f := range rest {
		group.Go(f)
	}
	look := open()
	for ctx.Err() == nil {
		queues, err := look.List(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, q := range queues {
			for _, c := range q.Claims {
				if !c.Holds {
					n++
				}
			}
		}
		if n == waiting {
			return look
		}
		runtime.Gosched()
	}
	t.Fatalf("never %d claims that wait", waiting)
	return nil
}

// textOf is who of a circle has what and waits for what.
func textOf(circles [][]*standing) string {
	var all []string
	for _, circle := range circles {
		var way []string
		for _, s := range circle {
			way = append(way, strings.Join(s.has(), "+")+">"+s.name)
		}
		all = append(all, strings.Join(way, " "))
	}
	return strings.Join(all, " | ")
}

func TestDeadlocks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		waiting  int
		programs [][]walk
		want     string
	}{
		{"two orders", 2, [][]walk{{{"a", "b"}}, {{"b", "a"}}}, "b>a a>b"},
		{"one order", 1, [][]walk{{{"a", "b"}}, {{"c", "a"}}}, ""},
		{"three in a circle", 3, [][]walk{{{"a", "b"}}, {{"b", "c"}}, {{"c", "a"}}}, "c>a a>b b>c"},
		{"one waits behind a circle", 3, [][]walk{{{"a", "b"}}, {{"b", "a"}}, {{"c", "a"}}}, "b>a a>b"},
		{"two goroutines of a program", 2, [][]walk{{{"a"}, {"c", "b"}}, {{"b", "a"}}}, ""},
		{"three deep", 2, [][]walk{{{"a", "x", "b"}}, {{"b", "y", "a"}}}, "y+b>a x+a>b"},
		{"readers share", 0, [][]walk{{{"r:a", "r:b"}}, {{"r:b", "r:a"}}}, ""},
		{"readers who write", 2, [][]walk{{{"r:a", "b"}}, {{"r:b", "a"}}}, "b>a a>b"},
		{"a permit is left", 0, [][]walk{{{"p:a", "p:b"}}, {{"p:b", "p:a"}}}, ""},
		{"no permit is left", 2, [][]walk{{{"p:a", "b"}}, {{"p:a"}}, {{"b", "p:a"}}}, ""},
		{"all permits wait", 3, [][]walk{{{"p:a", "b"}}, {{"p:a", "b"}}, {{"b", "p:a"}}}, "b>a a>b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			shared := memory.NewStore()
			c := walkers(t, func() *stile.Client { return opened(t, shared.Driver()) }, tt.waiting, tt.programs...)
			circles, err := deadlocksOf(t.Context(), c, "")
			if got := textOf(circles); err != nil || got != tt.want {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func opened(t *testing.T, d driver.Driver) *stile.Client {
	t.Helper()
	c, err := stile.New(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestLsDeadlocks(t *testing.T) {
	t.Parallel()
	url := "sqlite://" + filepath.Join(t.TempDir(), "locks.db")
	owner := "audit"
	open := func() *stile.Client {
		c, err := stile.Open(t.Context(), url, &stile.Options{LockOptions: stile.LockOptions{Owner: owner}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		owner = "billing"
		return c
	}
	walkers(t, open, 2, []walk{{"a", "b"}}, []walk{{"b", "a"}})
	says := func(args ...string) string {
		t.Helper()
		ls, said := Ls(&store.Store{URL: url}), &strings.Builder{}
		ls.SetArgs(args)
		ls.SetOut(said)
		if err := ls.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return said.String()
	}
	out := says("--deadlocks")
	for _, want := range []string{"a possible deadlock of 2:\n", "  ┌▶ billing on ", " has b and waits for a\n", "  └─ audit on ", " has a and waits for b\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("it says\n%s\nwant %q", out, want)
		}
	}
	if out := says("--deadlocks", "--json"); !strings.Contains(out, `"name": "b"`) || !strings.Contains(out, `"has": [`) {
		t.Errorf("JSON is %s", out)
	}
	if out := says("--deadlocks", "z"); out != "nobody waits in a circle\n" {
		t.Errorf("of another prefix: %q", out)
	}
}
