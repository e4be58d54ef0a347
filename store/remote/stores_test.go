//go:build unix

package remote_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/server"
	"github.com/stilelock/stile/store/memory"
	"github.com/stilelock/stile/store/remote"
)

// A host is an address at which one service may take another one's place. A proxy stands before it.
type host struct {
	*servertest.Proxy
	serves   atomic.Pointer[server.Server]
	requests atomic.Int64
}

func newHost(t *testing.T, d driver.Driver) *host {
	t.Helper()
	h := &host{}
	h.begin(t, d)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.requests.Add(1)
		h.serves.Load().ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		h.serves.Load().EndWaits()
		web.CloseClientConnections()
		web.Close()
	})
	h.Proxy = servertest.NewProxy(t, web.Listener.Addr().String())
	return h
}

// begin begins a service over a store.
func (h *host) begin(t *testing.T, d driver.Driver) {
	t.Helper()
	s, err := server.New(d, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.serves.Store(s)
}

// enter enters a claim. A request that a proxy may have sent on is repeated, as a client of the driver does.
func enter(t *testing.T, d driver.Driver, c *driver.Claim) (p driver.Place, err error) {
	t.Helper()
	for ctx := drive.Timely(t); ctx.Err() == nil; {
		if p, err = d.Enter(ctx, c); driver.OutcomeOf(err) == driver.OutcomeRefused || err == nil {
			return p, err
		}
	}
	return p, err
}

// apart fails unless an error says that some addresses lead to two stores, and nothing entered.
func apart(t *testing.T, what string, err error, addrs ...string) {
	t.Helper()
	judge(t, what, err, driver.OutcomeRefused, false)
	drive.Says(t, err, append(addrs, "two stores", "name only one of them in the URL")...)
}

// noVerdict fails unless an error says that the store of a claim cannot be asked.
func noVerdict(t *testing.T, what string, err error) {
	t.Helper()
	if !driver.IsUnreachable(err) || driver.OutcomeOf(err) == driver.OutcomeRefused {
		t.Errorf("%s at another store = %v (%v); want unreachable", what, err, driver.OutcomeOf(err))
	}
}

// Trap: over two stores a lock has two holders. Addresses of two stores are refused.
func TestTwoStores(t *testing.T) {
	a, b := newHost(t, memory.New()), newHost(t, memory.New())
	_, err := driver.Open(t.Context(), "stile://"+a.Addr+","+b.Addr)
	apart(t, "open", err, a.Addr, b.Addr)
}

// Trap: a client comes to the second store when the first address fails.
func TestTwoStoresAtFailover(t *testing.T) {
	one, two := memory.NewStore(), memory.NewStore()
	for name, begin := range map[string]func(a, b *host) driver.Driver{
		"the second address was silent at first": func(a, b *host) driver.Driver {
			b.Cut()
			defer b.Mend()
			b.begin(t, two.Driver())
			return open(t, a.Addr, b.Addr)
		},
		"the second service began again": func(a, b *host) driver.Driver {
			d := open(t, a.Addr, b.Addr)
			b.begin(t, two.Driver())
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newHost(t, one.Driver()), newHost(t, one.Driver())
			d := begin(a, b)
			c := drive.Claim("a", "x")
			drive.Holds(t, d, c)
			a.Cut()
			_, err := enter(t, d, drive.Claim("a", "y"))
			judge(t, "enter at the second store", err, driver.OutcomeRefused, false)
			drive.Says(t, err, a.Addr, b.Addr, "a lock could have two holders")
			if n := drive.Listed(t, two.Driver()); n != 0 {
				t.Errorf("%d claims entered at the second store", n)
			}
			for range 4 { // by turns at both addresses
				noVerdict(t, "renewal", drive.Renew(t, d, c))
				noVerdict(t, "leave", d.Leave(t.Context(), &driver.Release{Claim: c}))
			}
			a.Mend()
			if err := drive.Renew(t, d, c); err != nil {
				t.Errorf("renewal at the first store = %v; want nil", err)
			}
			_, err = enter(t, d, drive.Claim("b", "y"))
			judge(t, "enter while there are two stores", err, driver.OutcomeRefused, false)
			drive.Says(t, err, a.Addr, b.Addr, "a lock could have two holders")
			b.begin(t, one.Driver())
			servertest.Until(t, "a claim enters again", func() bool {
				_, err := d.Enter(drive.Timely(t), drive.Claim("b", "z"))
				return err == nil
			})
			drive.Leave(t, d, c)
			drive.Leave(t, d, drive.Claim("b", "z"))
		})
	}
}

// An address that was silent at first is asked again, and a client that trusted the other one hears of the second store.
func TestTwoStoresLater(t *testing.T) {
	a, b := newHost(t, memory.New()), newHost(t, memory.New())
	a.Cut()
	d := open(t, b.Addr, a.Addr)
	remote.SetMissingAgain(d, time.Millisecond)
	drive.Holds(t, d, drive.Claim("a", "x"))
	a.Mend()
	var err error
	servertest.Until(t, "the silent address is asked again", func() bool {
		_, err = d.Enter(drive.Timely(t), drive.Claim("b", "y"))
		return driver.OutcomeOf(err) == driver.OutcomeRefused && err != nil
	})
	apart(t, "enter", err, a.Addr, b.Addr)
}

// A changing store may lose its id, or not give it.
type changing struct {
	*memory.Driver
	id    atomic.Pointer[string]
	fails atomic.Bool
}

func (c *changing) Identity(ctx context.Context) (string, error) {
	if c.fails.Load() {
		return "", driver.Unreachable(errors.New("no"))
	}
	if id := c.id.Load(); id != nil {
		return *id, nil
	}
	return c.Driver.Identity(ctx)
}

// A store that was wiped has another id. The client takes it if all addresses give it.
func TestStoreChangesItsID(t *testing.T) {
	store := &changing{Driver: memory.New()}
	a, b := newHost(t, store), newHost(t, store)
	d := open(t, a.Addr, b.Addr)
	c := drive.Claim("a", "x")
	drive.Holds(t, d, c)
	id := "new"
	store.id.Store(&id)
	a.begin(t, store)
	readID(t, a)
	readID(t, b)
	if p, err := enter(t, d, drive.Claim("b", "y")); err != nil || !p.Holds {
		t.Errorf("enter = %+v, %v; want it to hold", p, err)
	}
	if err := drive.Renew(t, d, c); err != nil {
		t.Errorf("renewal = %v; want nil", err)
	}
}

// Trap: a service comes to another store, and the other one, still over the first, is cut off from this client only. There,
// other clients hold.
func TestStoreChangesBesideASilentAddress(t *testing.T) {
	one := memory.NewStore()
	moves := &changing{Driver: one.Driver()}
	a, b := newHost(t, moves), newHost(t, one.Driver())
	d := open(t, a.Addr, b.Addr)
	id := "new"
	moves.id.Store(&id)
	readID(t, a)
	b.Cut()
	_, err := enter(t, d, drive.Claim("a", "x"))
	judge(t, "enter", err, driver.OutcomeRefused, false)
	drive.Says(t, err, b.Addr+" does not say", a.Addr+" serves another store than before", "out of the URL if it is gone for good")
	b.Mend()
	servertest.Until(t, "the other address is asked again", func() bool {
		_, err = d.Enter(drive.Timely(t), drive.Claim("a", "x"))
		return err == nil || strings.Contains(err.Error(), "two stores")
	})
	apart(t, "enter once both answer", err, a.Addr, b.Addr)
	b.begin(t, moves)
	servertest.Until(t, "a claim enters again", func() bool {
		_, err := d.Enter(drive.Timely(t), drive.Claim("a", "x"))
		return err == nil
	})
}

// Two stores are no reason to refuse a claim while nobody answers.
func TestTwoStoresAndNoAnswer(t *testing.T) {
	one := memory.NewStore()
	a, b := newHost(t, one.Driver()), newHost(t, one.Driver())
	d := open(t, a.Addr, b.Addr)
	a.begin(t, memory.New())
	_, err := enter(t, d, drive.Claim("a", "x"))
	apart(t, "enter", err, a.Addr, b.Addr)
	a.Cut()
	b.Cut()
	servertest.Until(t, "the next round is over", func() bool {
		_, err = d.Enter(drive.Timely(t), drive.Claim("a", "x"))
		return driver.IsUnreachable(err)
	})
	judge(t, "enter while nobody answers", err, driver.OutcomeUnsent, true)
	a.Mend()
	b.Mend()
	_, err = enter(t, d, drive.Claim("a", "x"))
	apart(t, "enter", err, a.Addr, b.Addr)
}

// readID makes the service at a host read the id of its store.
func readID(t *testing.T, h *host) {
	t.Helper()
	if _, err := other(t, h).(driver.Identifier).Identity(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// other is another client of a host.
func other(t *testing.T, h *host) driver.Driver { return open(t, h.Addr) }

// One address may lead to another store after a restart. Its claims are gone.
func TestOneAddressChangesItsStore(t *testing.T) {
	a := newHost(t, memory.New())
	d := open(t, a.Addr, a.Addr)
	c := drive.Claim("a", "x")
	drive.Holds(t, d, c)
	a.begin(t, memory.New())
	if err := drive.Renew(t, d, c); !errors.Is(err, driver.ErrGone) {
		t.Errorf("renewal = %v; want ErrGone", err)
	}
	drive.Holds(t, d, drive.Claim("a", "y"))
}

// Trap: a balancer leads to two stores.
func TestTwoStoresBehindABalancer(t *testing.T) {
	one, two := memory.NewStore(), memory.NewStore()
	a, b := newHost(t, one.Driver()), newHost(t, two.Driver())
	var n, turns atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		[]*host{a, b}[n.Add(turns.Load())%2].serves.Load().ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	d := open(t, web.Listener.Addr().String())
	turns.Store(1) // from now on, the address leads to both by turns
	var err error
	for range 4 {
		if _, err = d.Enter(drive.Timely(t), drive.Claim("a", "x")); err != nil {
			break
		}
	}
	judge(t, "enter", err, driver.OutcomeRefused, false)
	drive.Says(t, err, "two stores", "behind "+web.Listener.Addr().String())
	if drive.Listed(t, one.Driver()) > 0 && drive.Listed(t, two.Driver()) > 0 {
		t.Error("both stores have a holder")
	}
}

// connections starts a balancer, which leads all requests of a connection to one service.
func connections(t *testing.T, lead func() *host) *httptest.Server {
	t.Helper()
	type leads struct{}
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(leads{}).(*host).serves.Load().ServeHTTP(w, r)
	}))
	web.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return context.WithValue(ctx, leads{}, lead()) }
	web.Start()
	t.Cleanup(web.Close)
	return web
}

// Trap: behind a balancer of connections, one request learns of one store only. A round must ask the others too.
func TestTwoStoresBehindABalancerOfConnections(t *testing.T) {
	one, two := memory.NewStore(), memory.NewStore()
	a, b := newHost(t, one.Driver()), newHost(t, two.Driver())
	var n, turns atomic.Int64
	web := connections(t, func() *host { return []*host{a, b}[n.Add(turns.Load())%2] })
	d := open(t, web.Listener.Addr().String())
	drive.Holds(t, d, drive.Claim("a", "x"))
	turns.Store(1)
	web.CloseClientConnections()
	_, err := enter(t, d, drive.Claim("a", "y"))
	judge(t, "enter", err, driver.OutcomeRefused, false)
	drive.Says(t, err, "two stores", "behind "+web.Listener.Addr().String())
	if n := drive.Listed(t, two.Driver()); n != 0 {
		t.Errorf("%d claims entered at the second store", n)
	}
}

// Trap: two clients that ask once learn of one store each, and both hold.
func TestOpenBehindABalancerOfConnections(t *testing.T) {
	a, b := newHost(t, memory.New()), newHost(t, memory.New())
	var n atomic.Int64
	web := connections(t, func() *host { return []*host{a, b}[n.Add(1)%2] })
	d, err := driver.Open(t.Context(), "stile://"+web.Listener.Addr().String())
	if err == nil {
		d.Close()
	}
	judge(t, "open", err, driver.OutcomeRefused, false)
	drive.Says(t, err, "two stores", "behind "+web.Listener.Addr().String())
}

// Trap: behind a balancer, the service that does not give its id may be the one over the store of before.
func TestStoreChangesBehindABalancer(t *testing.T) {
	unread := &changing{Driver: memory.New()}
	a, b := newHost(t, unread), newHost(t, memory.New())
	var n, turns atomic.Int64
	web := connections(t, func() *host { return []*host{a, b}[n.Add(turns.Load())%2] })
	d := open(t, web.Listener.Addr().String())
	unread.fails.Store(true)
	turns.Store(1)
	web.CloseClientConnections()
	_, err := enter(t, d, drive.Claim("a", "x"))
	judge(t, "enter", err, driver.OutcomeRefused, false)
	drive.Says(t, err, "behind "+web.Listener.Addr().String()+" serve another store than before")
}

// Trap: a single address did not give the id when the client opened. The first claim asks again.
func TestIdentityUnreadAtOpen(t *testing.T) {
	store := &changing{Driver: memory.New()}
	two := memory.NewStore()
	a, b := newHost(t, store), newHost(t, two.Driver())
	var n, turns atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		[]*host{a, b}[n.Add(turns.Load())%2].serves.Load().ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	store.fails.Store(true)
	d := open(t, web.Listener.Addr().String())
	store.fails.Store(false)
	drive.Holds(t, d, drive.Claim("a", "x"))
	turns.Store(1) // from now on, the address leads to both by turns
	for range 4 {
		_, _ = d.Enter(drive.Timely(t), drive.Claim("a", "y"))
	}
	if n := drive.Listed(t, two.Driver()); n != 0 {
		t.Errorf("%d claims entered at the second store", n)
	}
}

// A store without an id is served at one address only.
func TestStoresWithoutIDs(t *testing.T) {
	m := memory.NewStore()
	a, b := newHost(t, plain{m.Driver()}), newHost(t, plain{m.Driver()})
	_, err := driver.Open(t.Context(), "stile://"+a.Addr+","+b.Addr)
	judge(t, "open of two addresses", err, driver.OutcomeRefused, false)
	drive.Says(t, err, "gives no id", a.Addr, "name only one of them in the URL")
	drive.Holds(t, open(t, a.Addr, a.Addr), drive.Claim("a", "x"))
	c := newHost(t, m.Driver())
	_, err = driver.Open(t.Context(), "stile://"+c.Addr+","+b.Addr)
	judge(t, "open of two addresses, of which one gives an id", err, driver.OutcomeRefused, false)
}

// The check costs no request for a lock.
func TestStoresAreCheckedOnce(t *testing.T) {
	m := memory.NewStore()
	reads := &counting{Driver: m.Driver()}
	a, b := newHost(t, reads), newHost(t, m.Driver())
	d := open(t, a.Addr, b.Addr)
	a.requests.Store(0)
	b.requests.Store(0)
	const locks = 50
	for range locks {
		c := drive.Claim("a", "x")
		drive.Holds(t, d, c)
		drive.Leave(t, d, c)
	}
	if n, m := a.requests.Load(), b.requests.Load(); n != 2*locks || m != 0 {
		t.Errorf("%d locks were %d and %d requests; want %d and 0", locks, n, m, 2*locks)
	}
	if n := reads.n.Load(); n > 3 {
		t.Errorf("the id was read %d times from the store; want once per client and per 10 s", n)
	}
}

// counting counts the reads of the id.
type counting struct {
	*memory.Driver
	n atomic.Int64
}

func (c *counting) Identity(ctx context.Context) (string, error) {
	c.n.Add(1)
	return c.Driver.Identity(ctx)
}

// Requests that create nothing are refused too: a list of another store would be wrong.
func TestReadsAtTheSecondStore(t *testing.T) {
	store := memory.NewStore()
	a, b := newHost(t, store.Driver()), newHost(t, store.Driver())
	d := open(t, a.Addr, b.Addr)
	b.begin(t, memory.New())
	a.Cut()
	for range 4 {
		_, err := d.(driver.Lister).List(t.Context(), &driver.Query{})
		noVerdict(t, "list", err)
		_, err = d.(driver.Breaker).Break(t.Context(), &driver.BreakRequest{Name: "a"})
		noVerdict(t, "break", err)
	}
}
