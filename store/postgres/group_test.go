package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// queued returns how many requests of a driver wait for a turn.
func (g *groups) queued() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.enter) + len(g.leave)
}

// free returns how many turns are free.
func (g *groups) free() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.turns
}

// knows makes a driver know names, and leaves them free.
func knows(t *testing.T, d *Driver, names ...string) {
	t.Helper()
	for _, name := range names {
		c := claim(name, "before")
		enter(t, d, c)
		leave(t, d, c)
	}
	d.groups.seen.all(names...)
}

// all remembers names. If two of them share an entry, it tries another seed.
func (s *seen) all(names ...string) {
	for _, name := range names {
		s.add(name)
	}
	for slices.ContainsFunc(names, func(name string) bool { return !s.has(name) }) {
		s.seed = maphash.MakeSeed()
		for _, name := range names {
			s.add(name)
		}
	}
}

// prepares lets the one connection of a driver prepare the statement by which claims enter together.
func prepares(t *testing.T, d *Driver) {
	t.Helper()
	knows(t, d, "one", "two")
	got, one, two := arrive(), claim("one", "one"), claim("two", "one")
	release, wait := holdBack(t, d, got.enter(timely(t), d, one), got.enter(timely(t), d, two))
	release()
	wait()
	leave(t, d, one)
	leave(t, d, two)
}

// holdBack makes calls that all wait for a turn. It returns a function that lets them go together, and one that waits for
// them. Some may have been withdrawn meanwhile.
func holdBack(t *testing.T, d *Driver, calls ...func()) (release, wait func()) {
	t.Helper()
	turns := d.groups.free()
	for range turns {
		d.groups.queue(nil)
	}
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(call)
		servertest.Until(t, "the call is queued", func() bool { return d.groups.queued() == i+1 })
	}
	release = func() {
		for range turns {
			d.groups.pass()
		}
	}
	return release, all.Wait
}

// An arrivals records the answers to a group of claims that enter, by name and id.
type arrivals struct {
	sync.Mutex
	places map[string]driver.Place
	errs   map[string]error
}

func (a *arrivals) enter(ctx context.Context, d *Driver, c *driver.Claim) func() {
	return func() {
		p, err := d.Enter(ctx, c)
		a.Lock()
		defer a.Unlock()
		a.places[c.Name+"/"+c.ID], a.errs[c.Name+"/"+c.ID] = p, err
		c.Ticket = p.Ticket
	}
}

func arrive() *arrivals {
	return &arrivals{places: map[string]driver.Place{}, errs: map[string]error{}}
}

// Claims of free names enter in one transaction and leave in one. A name that is taken, a name whose row another transaction
// has locked, and a name that two claims want have the same outcomes as alone, and delay no other name.
func TestGroup(t *testing.T) {
	t.Parallel()
	url := fresh(server)
	d, other := open(t, url), open(t, url)
	names := []string{"a", "b", "c", "d", "taken", "stuck", "twice"}
	knows(t, d, names...)
	d.groups.seen.all(append(names, "new")...)
	holder := claim("taken", "holder")
	enter(t, other, holder)
	pool := connect(t, server)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), d.tables.fill(`SELECT FROM "{schema}".{prefix}name WHERE name = 'stuck' FOR UPDATE`)); err != nil {
		t.Fatal(err)
	}
	got, claims, calls := arrive(), map[string]*driver.Claim{}, []func(){}
	for _, name := range append(names, "new") {
		claims[name] = claim(name, "one")
		claims[name].Record, claims[name].Owner = "record of "+name, "owner"
		calls = append(calls, got.enter(timely(t), d, claims[name]))
	}
	calls = append(calls, got.enter(timely(t), d, claim("twice", "two")))
	release, wait := holdBack(t, d, calls...)
	release()
	servertest.Until(t, "all but one have an answer", func() bool {
		got.Lock()
		defer got.Unlock()
		return len(got.places) == len(calls)-1
	})
	got.Lock()
	_, there := got.places["stuck/one"]
	got.Unlock()
	if there {
		t.Error("the claim entered whose row another transaction has")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait()
	for at, p := range got.places {
		name, _, _ := strings.Cut(at, "/")
		want := name != "taken" && name != "twice"
		if got.errs[at] != nil || name != "twice" && p.Holds != want || p.Ticket == 0 || p.Holds && p.TTL != time.Minute {
			t.Errorf("%s: %+v, %v; want it to hold: %v", at, p, got.errs[at], want)
		}
	}
	if one, two := got.places["twice/one"], got.places["twice/two"]; one.Holds == two.Holds || one.Ticket == two.Ticket {
		t.Errorf("two claims of one name have the places %+v and %+v", one, two)
	}
	transactions := func(which string) (n int) {
		t.Helper()
		scan(t, pool, &n, d.tables.fill(`SELECT count(DISTINCT xmin::text) FROM "{schema}".{prefix}name WHERE name IN ('a', 'b', 'c', 'd') AND `+which))
		return n
	}
	if n := transactions("ends > 0 AND id = 'one' AND record = convert_to('record of ' || encode(name, 'escape'), 'UTF8') AND owner = 'owner'"); n != 1 {
		t.Errorf("4 claims of free names entered in %d transactions, want 1", n)
	}
	if p := enter(t, other, claim("a", "late")); p.Holds || p.Ahead != 1 {
		t.Errorf("another client enters behind with %+v", p)
	}

	// The lone claims among them leave in one transaction, and the claim with a waiter hands over.
	errs, calls := sync.Map{}, nil
	for _, name := range append(names, "new", "nobody") {
		c := claims[name]
		if name == "nobody" {
			c = claim(name, "one")
		}
		calls = append(calls, func() { errs.Store(name, d.Leave(timely(t), &driver.Release{Claim: c})) })
	}
	release, wait = holdBack(t, d, calls...)
	release()
	wait()
	errs.Range(func(name, err any) bool {
		if gone, _ := err.(error); errors.Is(gone, driver.ErrGone) != (name == "nobody") || name != "nobody" && err != nil {
			t.Errorf("%s leaves with %v", name, err)
		}
		return true
	})
	if n := transactions("name <> 'a' AND ends = 0"); n != 1 {
		t.Errorf("3 lone claims left in %d transactions, want 1", n)
	}
	if p := enter(t, other, claim("a", "late")); !p.Holds {
		t.Errorf("the claim that waited has the place %+v; want it to hold", p)
	}
	servertest.Until(t, "all turns are free", func() bool { return d.groups.free() == int(d.link.Pool().Stat().MaxConns()) })
}

// A fault in one request undoes the whole group. Each request gets its own answer.
func TestGroupUndone(t *testing.T) {
	t.Parallel()
	for wrong, test := range map[string]struct {
		do  string
		off bool // after it, requests no longer go together
	}{
		"a name": {`CREATE FUNCTION "{schema}".full() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF NEW.name = 'bad' AND NEW.id = 'one' THEN RAISE EXCEPTION 'no' USING ERRCODE = '53100'; END IF; RETURN NEW; END $$;
CREATE TRIGGER t BEFORE UPDATE ON "{schema}".{prefix}name FOR EACH ROW EXECUTE FUNCTION "{schema}".full()`, false},
		"the function": {`DROP FUNCTION "{schema}".{prefix}enter_alone`, true},
	} {
		t.Run(wrong, func(t *testing.T) {
			t.Parallel()
			d := open(t, fresh(server))
			names := []string{"a", "bad", "b"}
			knows(t, d, names...)
			exec(t, connect(t, server), d.tables.fill(test.do), asText)
			got, calls := arrive(), []func(){}
			for _, name := range names {
				calls = append(calls, got.enter(timely(t), d, claim(name, "one")))
			}
			release, wait := holdBack(t, d, calls...)
			release()
			wait()
			for at, p := range got.places {
				if at == "bad/one" && !test.off {
					says(t, got.errs[at], "the disk is full")
					marks(t, got.errs[at], true, false)
				} else if got.errs[at] != nil || !p.Holds {
					t.Errorf("%s: %+v, %v; want it to hold", at, p, got.errs[at])
				}
			}
			if off := d.groups.off.Load(); off != test.off {
				t.Errorf("claims no longer go together: %v; want %v", off, test.off)
			}
		})
	}
}

// A request whose context ends in the queue was not sent. If its context ends later, its outcome is unknown, and the others
// get their answers.
func TestGroupContextEnds(t *testing.T) {
	t.Parallel()
	s := schema()
	proxy := servertest.NewProxy(t, server.Addr)
	d := open(t, "postgres://postgres@"+proxy.Addr+"/postgres?pool_max_conns=1&schema="+s)
	other := open(t, "postgres://postgres@"+server.Addr+"/postgres?schema="+s)
	prepares(t, d)
	knows(t, d, "early", "a", "late", "b")
	got := arrive()
	early, endEarly := context.WithCancel(timely(t))
	late, endLate := context.WithCancel(timely(t))
	defer endLate()
	release, wait := holdBack(t, d,
		got.enter(early, d, claim("early", "one")), got.enter(timely(t), d, claim("a", "one")),
		got.enter(late, d, claim("late", "one")), got.enter(timely(t), d, claim("b", "one")))
	endEarly()
	servertest.Until(t, "one is withdrawn", func() bool { return d.groups.queued() == 3 })
	proxy.Freeze(false, true)
	release()
	servertest.Until(t, "the answer is on its way", func() bool { return count(t, other, lone) == 3 && proxy.Holds() })
	endLate()
	servertest.Until(t, "two have an answer", func() bool {
		got.Lock()
		defer got.Unlock()
		return len(got.errs) == 2
	})
	proxy.Freeze(false, false)
	wait()
	for at, want := range map[string]driver.Outcome{"early/one": driver.OutcomeUnsent, "late/one": driver.OutcomeUnknown} {
		if err := got.errs[at]; driver.OutcomeOf(err) != want || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, %v; want %v", at, err, driver.OutcomeOf(err), want)
		}
	}
	for _, at := range []string{"a/one", "b/one"} {
		if got.errs[at] != nil || !got.places[at].Holds {
			t.Errorf("%s: %+v, %v; want it to hold", at, got.places[at], got.errs[at])
		}
	}
	if p := enter(t, other, claim("late", "next")); p.Holds {
		t.Errorf("another holds beside the claim of which nothing is known: %+v", p)
	}
}

// A request whose context ends while its group waits for a connection is never sent. The others go on.
func TestGroupContextEndsBeforeConnection(t *testing.T) {
	t.Parallel()
	s := schema()
	d := open(t, "postgres://postgres@"+server.Addr+"/postgres?pool_max_conns=1&schema="+s)
	other := open(t, "postgres://postgres@"+server.Addr+"/postgres?schema="+s)
	prepares(t, d)
	knows(t, d, "ended", "a", "b")
	got := arrive()
	ctx, end := context.WithCancel(timely(t))
	release, wait := holdBack(t, d, got.enter(ctx, d, claim("ended", "one")), got.enter(timely(t), d, claim("a", "one")),
		got.enter(timely(t), d, claim("b", "one")))
	conn, err := d.link.Pool().Acquire(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	release()
	servertest.Until(t, "they have a turn together", func() bool { return d.groups.queued() == 0 })
	end()
	servertest.Until(t, "one has an answer", func() bool {
		got.Lock()
		defer got.Unlock()
		return len(got.errs) == 1
	})
	conn.Release()
	wait()
	if err := got.errs["ended/one"]; driver.OutcomeOf(err) != driver.OutcomeUnsent || !errors.Is(err, context.Canceled) {
		t.Errorf("enter whose context ended = %v, %v; want that it was not sent", err, driver.OutcomeOf(err))
	}
	for _, at := range []string{"a/one", "b/one"} {
		if got.errs[at] != nil || !got.places[at].Holds {
			t.Errorf("%s: %+v, %v; want it to hold", at, got.places[at], got.errs[at])
		}
	}
	if p := enter(t, other, claim("ended", "next")); !p.Holds {
		t.Errorf("another claim enters with %+v; want it to hold, since the first one was given up unsent", p)
	}
	servertest.Until(t, "all turns are free", func() bool { return d.groups.free() == 1 })
}

// The answer to a group is lost: all its outcomes are unknown, and no request is repeated.
func TestGroupLost(t *testing.T) {
	t.Parallel()
	s := schema()
	proxy := servertest.NewProxy(t, server.Addr)
	d := open(t, "postgres://postgres@"+proxy.Addr+"/postgres?pool_max_conns=1&schema="+s)
	other := open(t, "postgres://postgres@"+server.Addr+"/postgres?schema="+s)
	prepares(t, d)
	knows(t, d, "a", "b")
	got := arrive()
	release, wait := holdBack(t, d, got.enter(timely(t), d, claim("a", "one")), got.enter(timely(t), d, claim("b", "one")))
	proxy.Freeze(false, true)
	release()
	servertest.Until(t, "the answer is on its way", func() bool { return count(t, other, lone) == 2 && proxy.Holds() })
	proxy.Drop()
	wait()
	for at, err := range got.errs {
		if driver.OutcomeOf(err) != driver.OutcomeUnknown || !driver.IsUnreachable(err) {
			t.Errorf("%s: %v, %v; want an unknown outcome", at, err, driver.OutcomeOf(err))
		}
	}
	proxy.Freeze(false, false)
	for _, name := range []string{"a", "b"} {
		if p := enter(t, other, claim(name, "next")); p.Holds || p.Ahead != 1 {
			t.Errorf("another enters %s with %+v; want it behind one", name, p)
		}
	}
}

// The driver is closed while requests wait for a turn, and while a group is under way.
func TestGroupClosed(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(server))
	knows(t, d, "a", "b")
	got := arrive()
	release, wait := holdBack(t, d, got.enter(timely(t), d, claim("a", "one")), got.enter(timely(t), d, claim("b", "one")))
	d.Close()
	wait()
	release()
	for at, err := range got.errs {
		if !errors.Is(err, driver.ErrClosed) {
			t.Errorf("%s: %v; want ErrClosed", at, err)
		}
	}
}

// Many goroutines of two clients lock a few names over one connection each. No two hold a name at once, and its tickets
// rise.
func TestGroupsExclude(t *testing.T) {
	t.Parallel()
	url := fresh(server, "pool_max_conns=1")
	ds := []*Driver{open(t, url), open(t, url)}
	const names, workers, rounds = 24, 32, 60
	for i := range names {
		knows(t, ds[0], fmt.Sprint(i))
		knows(t, ds[1], fmt.Sprint(i))
	}
	var (
		holders, tickets [names]atomic.Int64
		held, together   atomic.Int64
		all              sync.WaitGroup
	)
	for w := range workers {
		all.Go(func() {
			d := ds[w%len(ds)]
			for i := range rounds {
				n := (w + i) % names
				c := claim(fmt.Sprint(n), fmt.Sprint(w, "-", i))
				c.Try = true
				p, err := d.Enter(timely(t), c)
				if err != nil {
					t.Errorf("enter: %v", err)
					return
				}
				if d.groups.queued() > 1 {
					together.Add(1)
				}
				if !p.Holds {
					continue
				}
				held.Add(1)
				if holders[n].Add(1) > 1 {
					t.Errorf("two hold %d", n)
				}
				if was := tickets[n].Swap(p.Ticket); was >= p.Ticket {
					t.Errorf("name %d: ticket %d after %d", n, p.Ticket, was)
				}
				holders[n].Add(-1)
				c.Ticket = p.Ticket
				if err := d.Leave(timely(t), &driver.Release{Claim: c}); err != nil {
					t.Errorf("leave: %v", err)
				}
			}
		})
	}
	all.Wait()
	if held.Load() < rounds || together.Load() == 0 {
		t.Errorf("%d held, and %d times requests waited to go together: that proves nothing", held.Load(), together.Load())
	}
}
