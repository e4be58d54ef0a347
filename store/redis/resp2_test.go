package redis

import (
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// On a connection of the older protocol, RESP2, the server accepts the request to report changes, but cannot report any. So
// no part relies on reports: a waiter polls, a watch polls, and the traits say so. The queue does not need reports.
func TestWithoutPushes(t *testing.T) {
	t.Parallel()
	clients := map[string]func(t *testing.T) rueidis.Client{
		"a client that speaks RESP2": func(t *testing.T) rueidis.Client {
			return clientOf(t, servertest.Redis(t).Addr, true)
		},
		"a server without HELLO": func(t *testing.T) rueidis.Client {
			return clientOf(t, servertest.Redis(t, "--rename-command", "HELLO", "").Addr, false)
		},
		"a user without the right": func(t *testing.T) rueidis.Client {
			s := servertest.Redis(t)
			s.Redis([]string{"ACL", "SETUSER", "default", "-client|tracking"})
			return clientOf(t, s.Addr, false)
		},
	}
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client(t)
			d, err := NewSetNX(c, &Options{Prefix: "set:"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			if wake := d.Traits().Wake; wake != "poll" {
				t.Errorf("the traits say %q; want poll", wake)
			}
			holder, waiter := claim("name", "holder"), claim("name", "waiter")
			enter(t, d, holder)
			enter(t, d, waiter)
			looks := calls(t, c, "pttl")
			held := awaiting(t, d, waiter)
			servertest.Until(t, "the waiter looks again and again", func() bool { return calls(t, c, "pttl") > looks+5 })
			leave(t, d, holder)
			if p := <-held; !p.Holds {
				t.Errorf("the waiter's place is %+v", p)
			}

			q, err := New(c, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { q.Close() })
			changed := watching(t, q, "name")
			enter(t, q, claim("name", "a"))
			waits := claim("name", "b")
			enter(t, q, waits)
			listens(t, q, waits)
			servertest.Until(t, "the watch sees both", func() bool {
				select {
				case <-changed:
				case <-timely(t).Done():
					t.Fatal("the watch sees nothing")
				}
				list, err := q.List(timely(t), &driver.Query{Name: "name"})
				return err == nil && len(list) == 1 && len(list[0].Claims) == 2
			})
			if wake := q.Traits().Wake; wake != "push" {
				t.Errorf("the queue's traits say %q; want push", wake)
			}
		})
	}
}

func clientOf(t testing.TB, addr string, resp2 bool) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, AlwaysRESP2: resp2, ForceSingleClient: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// calls returns how often a server ran a command.
func calls(t testing.TB, c rueidis.Client, command string) int64 {
	t.Helper()
	text, err := c.Do(timely(t), c.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	return callsIn(text, command)
}

func callsIn(text, command string) (n int64) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			first, _, _ := strings.Cut(rest, ",")
			n, _ = strconv.ParseInt(first, 10, 64)
		}
	}
	return n
}
