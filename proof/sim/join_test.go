package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// places are the stores of joined locks, in the order of their ids, each with a function that opens another client.
type places struct {
	*testing.T
	stores []*memory.Store
}

// inPlaces runs f in virtual time with some stores.
func inPlaces(t *testing.T, n int, f func(p *places)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &places{T: t}
		for range n {
			p.stores = append(p.stores, memory.NewStore())
		}
		slices.SortFunc(p.stores, func(a, b *memory.Store) int { return strings.Compare(idOf(t, a.Driver()), idOf(t, b.Driver())) })
		f(p)
	})
}

func idOf(t *testing.T, d driver.Identifier) string {
	t.Helper()
	id, err := d.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// open opens a client of a store.
func (p *places) open(d driver.Driver) *stile.Client {
	p.Helper()
	c, err := stile.New(d, nil)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { c.Close() })
	return c
}

// queued returns the number of a name's claims in a store.
func (p *places) queued(store int, name string) int {
	p.Helper()
	list, err := p.stores[store].Driver().List(p.Context(), &driver.Query{Name: name})
	if err != nil {
		p.Fatal(err)
	}
	if len(list) == 0 {
		return 0
	}
	return len(list[0].Claims)
}

// idless is a store that keeps no id.
type idless struct{ driver.Driver }

// A rightless store could keep an id, but returns an error that names the missing step.
type rightless struct{ driver.Driver }

func (rightless) Identity(context.Context) (string, error) {
	return "", fmt.Errorf("%w: ask the owner", driver.ErrUnsupported)
}

// parts returns the names of a lease's parts.
func parts(l *stile.Lease) (names []string) {
	for _, p := range l.Parts() {
		names = append(names, p.Name())
	}
	return names
}

func TestJoinOrder(t *testing.T) {
	inPlaces(t, 3, func(p *places) {
		a, b, last := p.open(p.stores[0].Driver()), p.open(p.stores[1].Driver()), p.open(idless{p.stores[2].Driver()})
		for _, l := range []*stile.Lock{
			stile.Join(last.Mutex("0"), b.Mutex("x"), a.Mutex("z"), b.Reader("w"), a.Mutex("y")),
			stile.Join(a.Mutex("y"), a.Mutex("z"), b.Reader("w"), stile.Join(last.Mutex("0"), b.Mutex("x"))),
		} {
			lease, err := l.Lock(p.Context())
			if err != nil {
				p.Fatal(err)
			}
			if got, want := parts(lease), []string{"y", "z", "w", "x", "0"}; !slices.Equal(got, want) {
				p.Errorf("taken in the order %q; want %q", got, want)
			}
			if err := lease.Unlock(); err != nil {
				p.Error(err)
			}
		}
		same := stile.Join(b.Mutex("x"), a.Mutex("x"))
		lease, err := same.Lock(p.Context())
		if err != nil {
			p.Fatalf("one name in two stores: %v; want two locks", err)
		}
		if err := lease.Unlock(); err != nil {
			p.Error(err)
		}
	})
}

func TestJoinAcrossStoresRefuses(t *testing.T) {
	inPlaces(t, 2, func(p *places) {
		a, again, b := p.open(p.stores[0].Driver()), p.open(p.stores[0].Driver()), p.open(p.stores[1].Driver())
		one, other := p.open(idless{p.stores[0].Driver()}), p.open(idless{p.stores[1].Driver()})
		without := p.open(rightless{p.stores[1].Driver()})
		nobody := &stile.Client{}
		for _, tt := range []struct {
			name  string
			lock  *stile.Lock
			want  error
			words string
		}{
			{"one store twice", stile.Join(a.Mutex("x"), again.Mutex("y")), stile.ErrInvalid, "two of its clients are of one store (memory)"},
			{"one name twice", stile.Join(a.Mutex("x"), b.Mutex("x"), a.Reader("x")), stile.ErrInvalid, `"x" is in it twice`},
			{"no ids", stile.Join(one.Mutex("x"), a.Mutex("y"), other.Mutex("z")), stile.ErrUnsupported, "keep no ids"},
			{"no rights", stile.Join(one.Mutex("x"), a.Mutex("y"), without.Mutex("z")), stile.ErrUnsupported, "ask the owner) keep no ids"},
			{"no client", stile.Join(a.Mutex("x"), nobody.Mutex("y")), stile.ErrInvalid, "invalid client"},
			{"no lock", stile.Join(a.Mutex("x"), b.Mutex("")), stile.ErrInvalid, "the name is empty"},
			{"an option", stile.Join(a.Mutex("x"), b.Mutex("y").With(stile.LockOptions{TTL: -1})), stile.ErrInvalid, "invalid ttl"},
		} {
			_, err := tt.lock.Lock(p.Context())
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.words) {
				p.Errorf("%s: %v; want %v with %q", tt.name, err, tt.want, tt.words)
			}
		}
		if n := p.queued(0, "x"); n != 0 {
			p.Errorf("a refused lock left %d claims", n)
		}
	})
}

// The test makes one store fail while a client takes a lock in two stores, and checks the part in the other.
func TestJoinStoreFails(t *testing.T) {
	for name, fails := range map[string]memory.Fault{
		"its id":         {Verb: memory.Identity, Err: errors.New("no right to read it"), Times: -1},
		"its lock":       {Verb: memory.Enter, Err: driver.Refused(errors.New("no right to write")), Times: -1},
		"it is cut off":  {Err: driver.Unsent(driver.Unreachable(errors.New("cut off"))), Times: -1},
		"it is silent":   {Hang: true, Times: -1},
		"answers go":     {Verb: memory.Enter, Lose: true, Times: -1},
		"its id is slow": {Verb: memory.Identity, Hang: true, Times: -1},
	} {
		inPlaces(t, 2, func(p *places) {
			d := p.stores[1].Driver()
			a, b := p.open(p.stores[0].Driver()), p.open(d)
			d.Inject(fails)
			start := time.Now()
			_, err := stile.Join(a.Mutex("x"), b.Mutex("y")).Lock(p.Context())
			if err == nil || time.Since(start) > 11*time.Second {
				p.Errorf("%s: %v after %v; want an error within twice Patience", name, err, time.Since(start))
			}
			if n := p.queued(0, "x"); n != 0 {
				p.Errorf("%s: %d claims in the other store; want them given back", name, n)
			}
			d.Heal()
		})
	}
}

// If a store fails while the client holds, the joined lease ends in time; the other part stays held until the release.
func TestJoinStoreFailsLater(t *testing.T) {
	inPlaces(t, 2, func(p *places) {
		d := p.stores[1].Driver()
		a, b := p.open(p.stores[0].Driver()), p.open(d)
		lease, err := stile.Join(a.Mutex("x"), b.Mutex("y")).Lock(p.Context())
		if err != nil {
			p.Fatal(err)
		}
		ctx := lease.Context()
		d.SetLink(memory.Refused)
		<-ctx.Done()
		if err := context.Cause(ctx); !errors.Is(err, stile.ErrLost) || p.queued(1, "y") != 1 {
			p.Errorf("the context ended with %v, %d claims in the store that fails; want ErrLost before it gives the lock away", err, p.queued(1, "y"))
		}
		if n := p.queued(0, "x"); n != 1 {
			p.Errorf("%d claims in the other store; want the part that is not released", n)
		}
		if err := lease.Unlock(); !errors.Is(err, stile.ErrLost) {
			p.Errorf("unlock: %v; want ErrLost", err)
		}
		if n := p.queued(0, "x"); n != 0 {
			p.Errorf("%d claims in the other store after the release; want none", n)
		}
		d.Heal()
	})
}

// A joined lock asks for the ids each time, since a store that lost everything has a new one; locks of one client need none.
func TestJoinAsksForIDs(t *testing.T) {
	inPlaces(t, 2, func(p *places) {
		d := p.stores[0].Driver()
		a, b := p.open(d), p.open(p.stores[1].Driver())
		for _, tt := range []struct {
			lock *stile.Lock
			want int
		}{{stile.Join(a.Mutex("x"), a.Mutex("y")), 0}, {stile.Join(a.Mutex("x"), b.Mutex("y")), 2}} {
			for range 2 {
				if err := tt.lock.Do(p.Context(), func(context.Context) error { return nil }); err != nil {
					p.Fatal(err)
				}
			}
			if got := d.Calls(memory.Identity); got != tt.want {
				p.Errorf("the store was asked for its id %d times; want %d", got, tt.want)
			}
		}
	})
}

// A wait that ends early names the holder of the missing part, also where the store names no blocker to waiters.
func TestJoinNamesTheHolder(t *testing.T) {
	inPlaces(t, 2, func(p *places) {
		holder := p.open(p.stores[1].Driver())
		held, err := holder.Mutex("y").With(stile.LockOptions{Owner: "till-7"}).Lock(p.Context())
		if err != nil {
			p.Fatal(err)
		}
		a, b := p.open(p.stores[0].Driver()), p.open(untold{p.stores[1].Driver()})
		_, err = stile.Join(a.Mutex("x"), b.Mutex("y")).LockWithin(p.Context(), time.Second)
		var e *stile.HeldError
		if !errors.As(err, &e) || e.By.Owner != "till-7" || !strings.Contains(err.Error(), `"y"`) {
			p.Errorf("got %v; want the part that is held, and by whom", err)
		}
		if err := held.Unlock(); err != nil {
			p.Error(err)
		}
	})
}

// untold is a store that does not name the blocker to a waiter.
type untold struct{ *memory.Driver }

func (u untold) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	p, err := u.Driver.Enter(ctx, c)
	p.Blocker = driver.ClaimInfo{}
	return p, err
}
