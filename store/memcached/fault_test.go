package memcached

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
)

// sizes are value sizes for each of the server's classes that a queue or a plain lock may be in.
var sizes = []int{20, 45, 75, 110, 150, 200, 260, 330, 420, 540, 690, 870, 1100}

// atOnce is how many values are stored with one request.
const atOnce = 200

// put stores values of some sizes under keys that begin with a word, and returns the server's answer.
func put(s *servertest.Server, word string, sizes ...int) string {
	var b strings.Builder
	for i := range atOnce {
		size := sizes[i%len(sizes)]
		fmt.Fprintf(&b, "set fill-%s-%d 0 0 %d\r\n%s\r\n", word, i, size, strings.Repeat("x", size))
	}
	return s.Memcached("%s", b.String())
}

// until repeats try until it returns true, and fails after a time. The argument of try is the number of the try.
func until(t testing.TB, what string, try func(i int) bool) {
	t.Helper()
	for i := range 5000 {
		if try(i) {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

// FillUp leaves no memory in a server that does not evict, not even freed memory. Each class of sizes is filled by itself,
// since each has a page of its own, and the smallest takes ten times as many values as the largest.
func FillUp(t testing.TB, s *servertest.Server) {
	t.Helper()
	for round := range 3 {
		for _, size := range sizes {
			until(t, "the server is full", func(i int) bool {
				return strings.Count(put(s, fmt.Sprint(round, "-", size, "-", i), size), "SERVER_ERROR") == atOnce
			})
		}
	}
}

// A server that evicts drops a live lock. The holder learns of this, and another claim may hold by then.
func TestEviction(t *testing.T) {
	eachLayout(t, []string{"-m", "4"}, func(t *testing.T, s *servertest.Server, parameters string) {
		d := open(t, s.Addr, parameters)
		if notes := strings.Join(d.Traits().Remarks(), " "); !strings.Contains(notes, "-M") {
			t.Errorf("the notes are %q; want them to warn", notes)
		}
		c := claim("name", "a")
		holds(t, d, c)
		until(t, "the server drops the lock", func(i int) bool {
			put(s, fmt.Sprint(i), sizes...)
			return strings.HasPrefix(s.Memcached("me %s\r\n", keyOf(d, "name")), "EN")
		})
		gone(t, d, c)
		holds(t, d, claim("name", "b"))
	})
}

// The notes give no advice for a server that does not evict, and say whose lease a full memory ends.
func TestNotesWithoutEviction(t *testing.T) {
	eachLayout(t, []string{"-M"}, func(t *testing.T, s *servertest.Server, parameters string) {
		traits := open(t, s.Addr, parameters).Traits()
		notes := strings.Join(traits.Remarks(), " ")
		if strings.Contains(notes, "run it with -M") || strings.Contains(notes, "cannot be renewed is lost") != traits.Ordered {
			t.Errorf("the notes of a server with -M: %s", notes)
		}
	})
}

// The claims of a name are one value, whose size the server limits.
func TestQueueDoesNotFit(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t)
	d := open(t, s.Addr, "")
	if notes := strings.Join(d.Traits().Remarks(), " "); !strings.Contains(notes, "of 1048576 bytes at most") {
		t.Errorf("the notes do not say how large a queue can be: %s", notes)
	}
	first := claim("name", "first")
	holds(t, d, first)
	var err error
	for i := 0; err == nil && i < 100; i++ {
		waiter := claim("name", fmt.Sprint("waiter-", i))
		waiter.Record = strings.Repeat("r", 60_000)
		_, err = d.Enter(timely(t), waiter)
	}
	says(t, err, "raise its option -I")
	marks(t, err, true, false)
	if err := renew(t, d, first); err != nil {
		t.Errorf("renewal of one who is in the queue = %v", err)
	}
}

// The meta command to store deletes a value that it cannot replace, at least up to 1.6.18; the classic command does not.
func TestFullServerKeepsByClassicCommand(t *testing.T) {
	t.Parallel()
	s := servertest.Memcached(t, "-m", "4", "-M")
	s.Memcached("set victim 0 0 300\r\n%s\r\n", strings.Repeat("v", 300))
	FillUp(t, s)
	_, version, _ := strings.Cut(strings.TrimSpace(s.Memcached("mg victim c\r\n")), "c")
	other := strings.Repeat("w", 300)
	if got := s.Memcached("cas victim 0 0 300 %s\r\n%s\r\nmg victim\r\n", version, other); !strings.HasSuffix(got, "HD\r\n") {
		t.Errorf("cas = %q; want the value to be there still", got)
	}
	if got := s.Memcached("ms victim 300 C%s\r\n%s\r\nmg victim\r\n", version, other); !strings.HasSuffix(got, "EN\r\n") {
		t.Logf("this server's ms keeps the value that it cannot replace: %q", got)
	}
}

// A flush ends holding and waiting claims. They do not come back, and the next claim holds.
func TestFlush(t *testing.T) {
	eachLayout(t, nil, func(t *testing.T, s *servertest.Server, parameters string) {
		d := open(t, s.Addr, parameters)
		held, waiting := claim("name", "held"), claim("name", "waiting")
		holds(t, d, held)
		waits(t, d, waiting)
		ended := make(chan error, 1)
		go func() {
			_, err := d.Await(timely(t), waiting)
			ended <- err
		}()
		s.Memcached("flush_all\r\n")
		if err := <-ended; err != nil {
			t.Errorf("await = %v; want nil, since the claim has to ask", err)
		}
		gone(t, d, held)
		if d.Traits().Ordered {
			gone(t, d, waiting)
		} else {
			holds(t, d, waiting) // it had no place to lose
			if err := leave(t, d, waiting); err != nil {
				t.Errorf("leave = %v", err)
			}
		}
		holds(t, d, claim("name", "next"))
	})
}

// The server ends no lease early, so even the shortest lease is trusted for most of its time, and a late renewal is in time.
func TestShortLeaseIsTrusted(t *testing.T) {
	eachLayout(t, nil, func(t *testing.T, s *servertest.Server, parameters string) {
		before := time.Now()
		lease := take(t, s, parameters, 3*time.Second)
		if got, want := lease.Deadline().Sub(before), 2600*time.Millisecond; got < want {
			t.Errorf("a lease of 3s is trusted for %v; want %v or more", got, want)
		}
	})
}

// The next renewal notices a flush, and the lease's context ends.
func TestFlushEndsLease(t *testing.T) {
	eachLayout(t, nil, func(t *testing.T, s *servertest.Server, parameters string) {
		lane := awake.Lane(t)
		lease := take(t, s, parameters, 6*time.Second)
		s.Memcached("flush_all\r\n")
		lost(t, lane, lease, 4*time.Second)
	})
}

// A killed server comes back empty. The holder knows as soon as it is back, long before the next renewal.
func TestRestartEndsLease(t *testing.T) {
	eachLayout(t, nil, func(t *testing.T, s *servertest.Server, parameters string) {
		lane := awake.Lane(t)
		lease := take(t, s, parameters, 10*time.Minute)
		s.Kill()
		s.Restart()
		lost(t, lane, lease, 10*time.Second)
	})
}

// take returns a lease on the lock "name".
func take(t *testing.T, s *servertest.Server, parameters string, ttl time.Duration) *stile.Lease {
	t.Helper()
	options := &stile.Options{LockOptions: stile.LockOptions{TTL: ttl}}
	client, err := stile.Open(timely(t), "memcached://"+s.Addr+parameters, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	lease, err := client.Mutex("name").Lock(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// lost waits until a lease ends because the server lost it.
func lost(t *testing.T, lane *awake.Turn, lease *stile.Lease, bound time.Duration) {
	t.Helper()
	start := time.Now()
	select {
	case <-lease.Context().Done():
	case <-awake.For(time.Minute):
		t.Fatal("the lease is not over after a minute")
	}
	lane.Within(time.Since(start), bound, "the end of the lease")
	if err := context.Cause(lease.Context()); !errors.Is(err, stile.ErrLost) {
		t.Errorf("the lease ended with %v; want ErrLost", err)
	}
}

// A waiter notices that the server was restarted, whether or not it was in the queue.
func TestRestartWhileWaiting(t *testing.T) {
	eachLayout(t, nil, func(t *testing.T, s *servertest.Server, parameters string) {
		d := open(t, s.Addr, parameters)
		waiting := claim("name", "waiting")
		holds(t, d, claim("name", "held"))
		waits(t, d, waiting)
		s.Kill()
		var err error
		servertest.Until(t, "there is no connection", func() bool {
			_, err = d.Enter(timely(t), claim("name", "x"))
			return err != nil && driver.NotApplied(err)
		})
		says(t, err, "cannot reach memcached at "+s.Addr, "refused")
		marks(t, err, true, true)
		s.Restart()
		servertest.Until(t, "the server is found again", func() bool {
			p, err := d.Enter(timely(t), waiting)
			return errors.Is(err, driver.ErrGone) || err == nil && p.Holds && !d.Traits().Ordered
		})
	})
}

// keyOf returns the key of a name.
func keyOf(d driver.Driver, name string) string {
	if p, ok := d.(*Plain); ok {
		return p.key(name)
	}
	return d.(*Driver).exchanger.key(name)
}
