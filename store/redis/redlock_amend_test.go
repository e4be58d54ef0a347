package redis_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// amended gives a claim another record, which must succeed, and notes the record in the claim.
func amended(t testing.TB, d driver.Driver, c *driver.Claim, record string) {
	t.Helper()
	changed := *c
	changed.Amend = &driver.Amendment{Record: record}
	if a := d.Renew(soon(t), []*driver.Claim{&changed})[0]; a.Err != nil {
		t.Fatalf("amendment of %q to %q = %v; want nil", c.Record, record, a.Err)
	}
	c.Record = record
}

func renewed(t testing.TB, d driver.Driver, c *driver.Claim) {
	t.Helper()
	if a := d.Renew(soon(t), []*driver.Claim{c})[0]; a.Err != nil || a.TTL <= 0 {
		t.Fatalf("renewal of %s = %+v; want a lease", c.ID, a)
	}
}

// recordOf returns the record that a client lists for a name, or the unexpected answer.
func recordOf(t testing.TB, d driver.Driver, name string) string {
	t.Helper()
	list, err := d.(driver.Lister).List(soon(t), &driver.Query{Name: name})
	if err != nil || len(list) != 1 || len(list[0].Claims) != 1 {
		return fmt.Sprintf("%+v, %v", list, err)
	}
	return list[0].Claims[0].Record
}

// value returns the value of a key on a server.
func value(s *servertest.Server, key string) string {
	text, _ := s.Redis([]string{"GET", key}).(string)
	return text
}

// A server that missed an amendment has the earlier record. Any majority shows an observer the later record, and the next
// renewal amends the server too.
func TestRedlockAmendmentMissed(t *testing.T) {
	t.Parallel()
	servers, _ := redlockOf(t, 3, durable...)
	proxies, url := proxied(t, servers)
	d := openRedlock(t, url)
	c := redlockClaim("missed", "x")
	holds(t, d, c)
	servertest.Until(t, "all servers have the claim", func() bool { return on(servers, c.Name) == 3 })
	proxies[2].Cut()
	amended(t, d, c, "second")
	amended(t, d, c, "last")
	for down := range 3 {
		watched, seen := proxied(t, servers)
		observer := openRedlock(t, seen)
		watched[down].Cut()
		if got := recordOf(t, observer, c.Name); got != "last" {
			t.Errorf("without server %d the record is %s; want %q", down, got, "last")
		}
		try := redlockClaim(c.Name, "try")
		try.Try = true
		if p, err := observer.Enter(soon(t), try); err != nil || p.Blocker.Record != "last" {
			t.Errorf("without server %d a try is told of %+v, %v; want record %q", down, p.Blocker, err, "last")
		}
	}
	if text := value(servers[2], c.Name); !strings.HasSuffix(text, "\nrecord-of-x") {
		t.Fatalf("the server that is cut off has %q; want the record before", text)
	}
	proxies[2].Mend()
	servertest.Until(t, "renewals bring the server up to it", func() bool {
		renewed(t, d, c)
		return strings.HasSuffix(value(servers[2], c.Name), "\nlast")
	})
	leaves(t, d, c)
}

// An amendment by a process that died arrives after its successor has amended the claim. Servers with the later record
// refuse it. A server without the later record applies it, but no majority shows it.
func TestRedlockLateAmendmentOfTheDead(t *testing.T) {
	t.Parallel()
	servers, url := redlockOf(t, 3, durable...)
	proxies, through := proxied(t, servers)
	parts, own := proxied(t, servers)
	dead, next, observer := openRedlock(t, through), openRedlock(t, own), openRedlock(t, url)
	c := redlockClaim("dead", "x")
	holds(t, dead, c)
	servertest.Until(t, "all servers have the claim", func() bool { return on(servers, c.Name) == 3 })
	amended(t, dead, c, "first")
	for _, p := range proxies {
		p.Hold(0)
	}
	changed := *c
	changed.Amend = &driver.Amendment{Record: "too late"}
	if a := dead.Renew(soon(t), []*driver.Claim{&changed})[0]; a.Err == nil || driver.NotApplied(a.Err) {
		t.Fatalf("an amendment that is held up = %+v; want its outcome unknown", a)
	}
	for _, p := range proxies {
		if p.Held() == 0 {
			t.Fatal("a server has heard of the amendment; want it held up")
		}
	}
	resumed := *c
	resumed.Record = "" // a handle has no record
	renewed(t, next, &resumed)
	changed = resumed
	changed.Amend = &driver.Amendment{Record: "third"}
	is, ok := errors.AsType[*driver.RecordError](next.Renew(soon(t), []*driver.Claim{&changed})[0].Err)
	if !ok || is.Have != "first" {
		t.Fatalf("amendment of an unknown record = %+v; want to be told %q", is, "first")
	}
	resumed.Record = is.Have
	parts[1].Cut() // so that the server has the earlier record, and applies the late amendment
	amended(t, next, &resumed, "third")
	for _, p := range proxies {
		p.Arrive()
	}
	has := func(i int, record string) bool { return strings.HasSuffix(value(servers[i], c.Name), "\n"+record) }
	servertest.Until(t, "the late one is applied", func() bool { return has(1, "too late") })
	if got := recordOf(t, observer, c.Name); got != "third" || !has(0, "third") || !has(2, "third") {
		t.Errorf("the record is %s; want %q on both servers that had heard of it", got, "third")
	}
	parts[1].Mend()
	servertest.Until(t, "renewals bring the server up to it", func() bool {
		renewed(t, next, &resumed)
		return has(1, "third")
	})
	leaves(t, next, &resumed)
}

// A claim that is amended stays the same for clients that do not know versions: they show its record, keep it, and remove
// it. Redlock used the scripts of layout setnx before.
func TestRedlockAmendedBesideOlderClients(t *testing.T) {
	t.Parallel()
	servers, url := redlockOf(t, 3, durable...)
	d := openRedlock(t, url)
	c := redlockClaim("older", "x")
	c.Owner = "nightly"
	all := func(record string) {
		t.Helper()
		servertest.Until(t, "all servers have "+record, func() bool {
			renewed(t, d, c)
			return !slices.ContainsFunc(servers, func(s *servertest.Server) bool {
				return !strings.HasSuffix(value(s, c.Name), "\n"+record)
			})
		})
	}
	holds(t, d, c)
	amended(t, d, c, "second")
	all("second")
	older := openRedlock(t, "redis://"+servers[0].Addr+"?layout=setnx")
	if got := recordOf(t, older, c.Name); got != "second" {
		t.Errorf("an older client shows %s; want %q", got, "second")
	}
	renewed(t, older, c)
	amended(t, d, c, "third")
	all("third")
	before := value(servers[0], c.Name)
	if p, err := older.Enter(soon(t), c); err != nil || !p.Holds || value(servers[0], c.Name) != before {
		t.Errorf("enter by an older client = %+v, %v, and the value %q; want it unchanged", p, err, value(servers[0], c.Name))
	}
	reclaiming := redlockClaim(c.Name, "again")
	reclaiming.Client, reclaiming.Owner, reclaiming.Reclaim, reclaiming.Try = c.Client, c.Owner, true, true
	if p, err := d.Enter(soon(t), reclaiming); err != nil || p.Holds {
		t.Errorf("enter that reclaims = %+v, %v; want it to leave a claim of its own client alone", p, err)
	}
	// A last renewal may be due since one was late. It would enter the claim again on a server that lacks it. Closing ends
	// it before the next request to the server.
	d.Close()
	if got := value(servers[0], c.Name); got != before {
		t.Errorf("before an older client takes the claim out the value is %q; want it unchanged", got)
	}
	leaves(t, older, c)
	if on(servers[:1], c.Name) != 0 {
		t.Error("an older client could not take the claim out")
	}
	next := openRedlock(t, url)
	if got := recordOf(t, next, c.Name); got != "third" {
		t.Errorf("the record is %s; want %q", got, "third")
	}
	leaves(t, next, c)
}

// A claim with another ticket is another claim, even with the same id.
func TestRedlockResumesByTicket(t *testing.T) {
	t.Parallel()
	servers, url := redlockOf(t, 3, durable...)
	first, next := openRedlock(t, url), openRedlock(t, url)
	c := redlockClaim("ticket", "x")
	holds(t, first, c)
	stranger := *c
	stranger.Ticket++
	if a := next.Renew(soon(t), []*driver.Claim{&stranger})[0]; !errors.Is(a.Err, driver.ErrGone) {
		t.Errorf("renewal with another ticket = %+v; want ErrGone", a)
	}
	renewed(t, next, c)
	leaves(t, next, c)
	servertest.Until(t, "no server has the claim", func() bool { return on(servers, c.Name) == 0 })
	if a := next.Renew(soon(t), []*driver.Claim{c})[0]; !errors.Is(a.Err, driver.ErrGone) {
		t.Errorf("renewal after it left = %+v; want ErrGone", a)
	}
}

// A claim that another process resumes has its full lease from then on. A server that lacks the claim gets it back.
func TestRedlockResumedIsRepaired(t *testing.T) {
	t.Parallel()
	servers, url := redlockOf(t, 3, durable...)
	first, next := openRedlock(t, url), openRedlock(t, url)
	c := redlockClaim("repaired", "x")
	holds(t, first, c)
	servertest.Until(t, "all servers have the claim", func() bool { return on(servers, c.Name) == 3 })
	amended(t, first, c, "second")
	servers[2].Redis([]string{"DEL", c.Name})
	renewed(t, first, c)
	servertest.Until(t, "the server has it again", func() bool { return strings.HasSuffix(value(servers[2], c.Name), "\nsecond") })
	first.Close()
	servers[1].Redis([]string{"DEL", c.Name})
	resumed := *c
	resumed.Client, resumed.Record = "another", ""
	start := time.Now()
	if a := next.Renew(soon(t), []*driver.Claim{&resumed})[0]; a.Err != nil || a.TTL+time.Since(start) <= 9*time.Second {
		t.Fatalf("renewal = %+v; want the whole lease", a)
	}
	servertest.Until(t, "the server has it again", func() bool { return strings.HasSuffix(value(servers[1], c.Name), "\nsecond") })
	leaves(t, next, &resumed)
	servertest.Until(t, "no server has the claim", func() bool { return on(servers, c.Name) == 0 })
}

// A leader amends its record and crashes. The process in its place resumes its term, and amends it again.
func TestRedlockTermIsResumed(t *testing.T) {
	t.Parallel()
	_, url := redlockOf(t, 3, durable...)
	client := func() *stile.Client {
		c, err := stile.Open(soon(t), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	first, second, observer := client(), client(), client()
	leads := func(value string, token int64) {
		t.Helper()
		leader, err := observer.Leader(soon(t), "term")
		if err != nil || leader.Value != value || !leader.Issued(token) {
			t.Errorf("leader = %+v, %v; want %q with token %d", leader, err, value, token)
		}
	}
	lease, err := first.Candidate("term", "starting").Lock(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	leads("starting", lease.Token())
	if err := lease.Proclaim(soon(t), "ready"); err != nil {
		t.Fatalf("proclaim = %v; want nil", err)
	}
	leads("ready", lease.Token())
	if err := lease.Downgrade(soon(t)); !errors.Is(err, stile.ErrUnsupported) {
		t.Errorf("downgrade = %v; want ErrUnsupported", err)
	}
	handle, err := lease.Handle()
	if err != nil {
		t.Fatal(err)
	}
	resumed, err := second.Attach(soon(t), handle)
	if err != nil || resumed.Token() != lease.Token() {
		t.Fatalf("attach = %v; want the lease with token %d", err, lease.Token())
	}
	leads("ready", lease.Token())
	if err := resumed.Proclaim(soon(t), "resumed"); err != nil {
		t.Fatalf("proclaim by the process that goes on = %v; want nil", err)
	}
	leads("resumed", lease.Token())
	if err := resumed.Unlock(); err != nil {
		t.Errorf("unlock = %v; want nil", err)
	}
}
