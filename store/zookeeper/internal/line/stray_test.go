package line

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A client is a keeper of a real ensemble, with the recipe of a mutex.
type client struct {
	zk     *ensemble.Ensemble
	line   *Keeper
	recipe *Single
}

func newClient(addr string) *client {
	zk := ensemble.New()
	zk.Conf = wire.Config{Hosts: []string{addr}, Timeout: 10 * time.Second, Path: "/"}
	zk.Prefix = "/stile/"
	d := &client{zk: zk, line: New(zk)}
	d.recipe = NewSingle(zk, d.line, znode.Mutex)
	return d
}

func (d *client) Enter(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	return d.recipe.Enter(ctx, d.zk.Prefix+c.Name, c)
}

func (d *client) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	return d.recipe.Renew(ctx, cs)
}

func (d *client) Leave(ctx context.Context, l *driver.Release) error {
	return d.recipe.Leave(ctx, d.zk.Prefix+l.Claim.Name, l)
}

// A straying is a client, and another one that shows which claims stand.
type straying struct {
	*testing.T
	d, other *client
	proxy    *servertest.Proxy
}

func newStraying(t *testing.T) *straying {
	t.Helper()
	s := &straying{T: t, proxy: servertest.NewProxy(t, servertest.ZooKeeper(t).Addr)}
	s.d, s.other = s.open(s.proxy.Addr), s.open(s.proxy.Addr)
	return s
}

func (s *straying) open(addr string) *client {
	d := newClient(addr)
	d.line.Begins()
	s.Cleanup(func() {
		d.zk.End(!d.line.End())
		d.zk.Life.Wait()
	})
	return d
}

func (s *straying) claim(id string) *driver.Claim {
	return &driver.Claim{
		Name: "n", ID: id, Client: id, Weight: driver.All, Capacity: driver.All, TTL: time.Minute, Wait: time.Minute, Record: id,
	}
}

// enter has a claim enter, and reports whether it holds.
func (s *straying) enter(d *client, c *driver.Claim) bool {
	s.Helper()
	var p driver.Place
	servertest.Until(s, "the claim enters", func() bool {
		var err error
		if p, err = d.Enter(s.Context(), c); err != nil && !driver.IsUnreachable(err) {
			s.Fatalf("enter: %v", err)
		}
		return err == nil
	})
	c.Ticket = p.Ticket
	return p.Holds
}

// forget takes a claim out of the driver's table, as a defect would, and leaves its node.
func (s *straying) forget(c *driver.Claim) {
	s.d.line.mu.Lock()
	defer s.d.line.mu.Unlock()
	delete(s.d.line.localClaims, c.ID)
}

// shows returns the records of the claims that stand.
func (s *straying) shows() (records []string) {
	s.Helper()
	session, err := s.other.zk.Live()
	if err != nil {
		s.Fatalf("a session: %v", err)
	}
	list, err := s.other.recipe.List(s.Context(), session, []string{"n"})
	if err != nil && !driver.IsUnreachable(err) {
		s.Fatalf("list: %v", err)
	}
	for _, l := range list {
		for _, c := range l.Claims {
			records = append(records, c.Record)
		}
	}
	return records
}

func (s *straying) until(what string, want ...string) {
	s.Helper()
	servertest.Until(s, what, func() bool { return slices.Equal(s.shows(), want) })
}

// The janitor removes a node that no local claim knows within compareEvery and a round trip, or at once after a lost
// connection. A waiter gets the lock then. The nodes of claims stay.
func TestStraysAreRemoved(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]bool{"after a connection was lost": true, "after a while": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStraying(t)
			lane := awake.Lane(t)
			stray, waits := s.claim("stray"), s.claim("waits")
			if !s.enter(s.d, stray) || s.enter(s.d, waits) {
				t.Fatal("the first claim waits, or the second holds")
			}
			s.forget(stray)
			begun := time.Now()
			if cut {
				s.proxy.Drop()
			}
			s.until("the node that nobody knows is gone, and the claim stands", "waits")
			within := 3 * compareEvery / 2
			if cut {
				within = compareEvery / 2
			}
			lane.Within(time.Since(begun), within, "the removal of the node")
			if !s.enter(s.d, waits) {
				t.Error("the claim behind it waits; want that it holds")
			}
		})
	}
}

// A stray that is kept stays until its time is over.
func TestStrayThatIsKept(t *testing.T) {
	t.Parallel()
	s := newStraying(t)
	kept, gone := s.claim("kept"), s.claim("gone")
	s.enter(s.d, kept)
	s.enter(s.d, gone)
	const keep = 4 * time.Second
	if err := s.other.Leave(t.Context(), &driver.Release{Claim: kept, Keep: keep}); err != nil {
		t.Fatalf("leave: %v", err)
	}
	begun := time.Now()
	s.forget(kept)
	s.forget(gone)
	s.d.line.janitor.compare(s.d.zk.Current())
	s.until("the other stray is gone", "kept")
	s.until("the kept stray is gone")
	if took := time.Since(begun); took < keep-time.Second {
		t.Errorf("the kept stray went after %v; want it to stay for %v", took, keep)
	}
}

// No node of a local claim is a stray, whatever the claim's state: its node is asked for and has no known name, it waits, or
// it must go. Neither is a node of another session, or a node that is no claim.
func TestWhatIsNoStray(t *testing.T) {
	t.Parallel()
	d := newClient("")
	t.Cleanup(d.zk.Life.End)
	s := &wire.Session{}
	here, elsewhere := d.line.Folder(s, "/stile/n"), d.line.Folder(&wire.Session{}, "/stile/n")
	d.line.localClaims["asked"] = newLocalClaim(&driver.Claim{ID: "asked", Weight: driver.All}, here, nil)
	d.line.localClaims["known"] = &LocalClaim{
		who: who{Folder: *here}, node: node{name: znode.GUID("known") + "lock-0000000001"}, lease: lease{state: claimLeaving},
	}
	d.line.localClaims["else"] = &LocalClaim{
		who: who{Folder: *elsewhere}, node: node{name: znode.GUID("else") + "lock-0000000002"},
	}
	for path, stray := range map[string]bool{
		"/stile/n/" + znode.GUID("asked") + "lock-0000000007": false,
		"/stile/n/" + znode.GUID("known") + "lock-0000000001": false,
		"/stile/n/" + znode.GUID("known") + "lock-0000000003": true,
		"/stile/m/" + znode.GUID("known") + "lock-0000000001": true,
		"/stile/n/" + znode.GUID("else") + "lock-0000000002":  true,
		"/stile/n/lock-0000000004":                            false,
		"/stile/n/_c_config":                                  false,
	} {
		if got := len(d.line.janitor.strays(s, []string{path})) == 1; got != stray {
			t.Errorf("%s is a stray: %v; want %v", path, got, stray)
		}
	}
}

// Servers before 3.6 cannot list a session's nodes, and the janitor does not ask them again.
func TestServersThatDoNotTellStrays(t *testing.T) {
	t.Parallel()
	s := newStraying(t)
	s.d.line.mu.Lock()
	s.d.line.janitor.blind = true
	s.d.line.mu.Unlock()
	stray := s.claim("stray")
	s.enter(s.d, stray)
	s.forget(stray)
	s.proxy.Drop()
	s.until("the connection is back", "stray")
	s.d.line.mu.Lock()
	at := s.d.line.janitor.compareAt
	s.d.line.mu.Unlock()
	if at != Never {
		t.Error("a comparison is due; want none where the servers cannot tell")
	}
}
