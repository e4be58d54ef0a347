package consul

import (
	"context"
	"fmt"
	"github.com/stilelock/stile/internal/awake"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// Taking a free lock costs one request, and its release one; the first also needs a session.
func TestRequestsOfAFreeLock(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	d, n := counted(t, s.Addr)
	for i := range 4 {
		c := claimOn("name")
		if i == 2 {
			c.Weight = 1
		}
		holds(t, d, c)
		leave(t, d, c)
		want := []string{"PUT /v1/txn", "PUT /v1/txn"}
		if i == 0 {
			want = append([]string{"PUT /v1/session/create"}, want...)
		}
		if got := n.take(); !slices.Equal(got, want) {
			t.Errorf("lock %d took %q; want %q", i, got, want)
		}
	}
	// Another TTL or lock-delay needs another session. An old session is renewed before it is used again.
	c := claimOn("name")
	c.TTL = time.Minute
	holds(t, d, c)
	leave(t, d, c)
	if got := n.take(); len(got) != 3 || got[0] != "PUT /v1/session/create" {
		t.Errorf("a lock with another ttl took %q; want a session of its own", got)
	}
	d.mu.Lock()
	d.sessions.idle[kind{time.Minute, 0}][0].sent -= 40 * time.Second
	d.mu.Unlock()
	c = claimOn("name")
	c.TTL = time.Minute
	if p := enter(t, d, c); p.TTL < 50*time.Second {
		t.Errorf("enter = %+v; want a lease of about a minute", p)
	}
	if got := n.take(); len(got) != 2 || got[1] != "PUT /v1/txn" {
		t.Errorf("a lock with an old session took %q; want a renewal and a transaction", got)
	}
}

// The client notices that an unused session has ended, and makes another.
func TestIdleSessionIsGone(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	d := open(t, "consul://"+s.Addr)
	c := claimOn("name")
	holds(t, d, c)
	leave(t, d, c)
	operator{t, "http://" + s.Addr}.must(http.MethodPut, "session/destroy/"+d.sessions.idle[kind{c.TTL, 0}][0].id, "")
	holds(t, d, claimOn("name"))
}

// Unused sessions end after their time, and when the driver is closed.
func TestIdleSessionsAreGivenBack(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	by := operator{t, "http://" + s.Addr}
	d := open(t, "consul://"+s.Addr)
	brief, long := claimOn("brief"), claimOn("long")
	brief.TTL = 3 * time.Second // it is there when its claim leaves
	for _, c := range []*driver.Claim{brief, long} {
		holds(t, d, c)
	}
	for _, c := range []*driver.Claim{brief, long} {
		leave(t, d, c)
	}
	servertest.Until(t, "the brief one is given back", func() bool { return by.sessions() == 1 })
	d.Close()
	if n := by.sessions(); n != 0 {
		t.Errorf("there are %d sessions after close; want none", n)
	}
}

// A hand-over takes as many requests with many waiters as with few.
func TestRequestsOfAHandOver(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	cost := map[int]int{}
	for _, waiting := range []int{2, 16} {
		d, n := counted(t, s.Addr)
		name := fmt.Sprint("name", waiting)
		var claims []*driver.Claim
		for range waiting {
			c := claimOn(name)
			enter(t, d, c)
			claims = append(claims, c)
		}
		ctx, cancel := context.WithCancel(timely(t))
		var (
			work sync.WaitGroup
			turn = make([]chan struct{}, waiting)
		)
		for i, c := range claims {
			turn[i] = make(chan struct{})
			work.Go(func() {
				for {
					p, err := d.Enter(ctx, c)
					if err == nil && p.Holds {
						close(turn[i])
						return
					}
					if _, err = d.Await(ctx, c); err != nil {
						return
					}
				}
			})
		}
		<-turn[0]
		quiet := func() { // until every waiting claim has its query open
			servertest.Until(t, "all wait", func() bool { return d.queries.open() == len(claims)-1 })
		}
		quiet()
		n.take()
		leave(t, d, claims[0])
		<-turn[1]
		claims = claims[1:]
		quiet()
		cost[waiting] = len(n.take())
		cancel()
		work.Wait()
	}
	if most := max(cost[2], cost[16]); most > 3 { // cleaning up may come before or after the count
		t.Errorf("a hand-over takes %d requests with 16 that wait, and %d with 2; want at most 3", cost[16], cost[2])
	}
}

// A claim that enters between a release and the next turn cannot overtake, and gives back what it took.
func TestNoBarging(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	by := operator{t, "http://" + s.Addr}
	d := open(t, "consul://"+s.Addr)
	first, second, third, try := claimOn("name"), claimOn("name"), claimOn("name"), claimOn("name")
	try.Try = true
	holds(t, d, first)
	waits(t, d, second)
	leave(t, d, first) // the second has not noticed
	waits(t, d, third)
	if p := enter(t, d, try); p.Holds || p.Ahead != 2 || p.Blocker.Ticket != second.Ticket || !p.Blocker.Holds {
		t.Errorf("a try = %+v; want 2 ahead, the first of which may hold", p)
	}
	if q := parse("name", "stile/name/", by.under("stile/name/")); q.lockKey != nil {
		t.Errorf("the lock's key is %+v; want none", q.lockKey)
	}
	holds(t, d, second)
	waits(t, d, third)

	// A claim that died with the lock's key it took too early blocks nobody.
	reader, writer, late := shared("other"), claimOn("other"), claimOn("other")
	holds(t, d, reader)
	waits(t, d, writer)
	waits(t, d, late)
	list := by.queued("other", 3)
	by.must(http.MethodPut, fmt.Sprintf("kv/stile/other/.lock?flags=%d&acquire=%s", lockFlags, list[2].Session), "")
	leave(t, d, reader)
	holds(t, d, writer)
	if q := parse("other", "stile/other/", by.under("stile/other/")); !q.hasLockKey(list[1].Session) {
		t.Errorf("the lock's key is %+v; want it with the session of the writer", q.lockKey)
	}
	leave(t, d, writer)
	holds(t, d, late)
}

// A kept lock comes free in time while the process lives, and some time later if it does not.
func TestStayOutlivesTheClient(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	lane := awake.Lane(t)
	one, n := counted(t, s.Addr)
	two := open(t, "consul://"+s.Addr)
	c, next := claimOn("name"), claimOn("name")
	holds(t, one, c)
	had := len(n.asks)
	const stay = 500 * time.Millisecond
	start := time.Now()
	if err := one.Leave(timely(t), &driver.Release{Claim: c, Keep: stay}); err != nil {
		t.Fatal(err)
	}
	one.Close()
	// Consul ends that session after once to twice its TTL, and a little later on a busy machine.
	if more := n.asks[had:]; len(more) != 1 || !strings.Contains(more[0], `"TTL":"`+stay.String()+`"`) {
		t.Errorf("sessions %q were asked for; want one for %v", more, stay)
	}
	servertest.Until(t, "the lock is free", func() bool { return enter(t, two, next).Holds })
	took := time.Since(start)
	if took < stay {
		t.Errorf("the lock was free after %v; want it kept for %v", took, stay)
	}
	lane.Within(took, c.TTL/2, "the lock is free, which was to be kept for %v, and not for the lease of %v", stay, c.TTL)
}

// After a restore the index of a query may be lower than before. A waiter asks with the new index, and never with index 0,
// which does not wait.
func TestIndexGoesBack(t *testing.T) {
	t.Parallel()
	var (
		indexes = []string{"90", "40", "0", "7"}
		asked   []string
		n       atomic.Int32
	)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := int(n.Add(1)) - 1
		asked = append(asked, r.URL.Query().Get("index"))
		w.Header().Set("X-Consul-Index", indexes[i])
		fmt.Fprint(w, "[]")
	}))
	defer s.Close()
	d, err := newDriver(&Options{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	target := &target{key: "x", index: 50}
	for range indexes {
		before := target.index
		if _, err := d.agent.changed(timely(t), target); err != nil {
			t.Fatal(err)
		}
		if target.index < 1 {
			t.Errorf("the index is %d after %d", target.index, before)
		}
	}
	if want := []string{"50", "90", "40", "1"}; !slices.Equal(asked, want) {
		t.Errorf("asked with the indexes %q; want %q", asked, want)
	}
}

// The driver explains Consul's error answers, with the right outcome.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status             int
		text, want         string
		definite, laterToo bool
	}{
		{429, "Your IP is issuing too many concurrent connections", "refuses more requests or connections", true, true},
		{500, "No cluster leader", "has no leader at the moment", true, true},
		{500, "No path to datacenter", "knows no way to this datacenter", true, false},
		{500, "rpc error making call: leadership lost while committing log", "could not do it", false, true},
		{503, "", "could not do it (status 503)", false, true},
		{413, "Value exceeds 524288 byte limit", "refused the request", true, false},
		{403, "Permission denied: token hunter2 lacks\n'key:write'", "does not let this token", true, false},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.text)
		}))
		d, err := newDriver(&Options{URL: s.URL, Token: "hunter2"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Enter(timely(t), claimOn("name"))
		says(t, err, test.want)
		told := test.status != 503 && test.status != 500
		if told && driver.NotApplied(err) != test.definite || driver.IsUnreachable(err) != test.laterToo {
			t.Errorf("status %d: %v; want definite %v, unreachable %v", test.status, err, test.definite, test.laterToo)
		}
		_, err = d.look(timely(t), "name")
		if driver.NotApplied(err) != test.definite {
			t.Errorf("status %d: %v; want definite %v", test.status, err, test.definite)
		}
		d.Close()
		s.Close()
	}
}
