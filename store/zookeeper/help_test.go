package zookeeper_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// claim returns a new exclusive claim.
func claim(name string) *driver.Claim {
	return &driver.Claim{
		Name: name, ID: rand.Text(), Client: "test", Weight: driver.All, Capacity: driver.All,
		TTL: time.Minute, Wait: time.Minute,
	}
}

// enter enters a claim, notes its ticket in it, and fails unless the claim then holds or waits as it should.
func enter(t *testing.T, d driver.Driver, c *driver.Claim, holds bool) driver.Place {
	t.Helper()
	var p driver.Place
	if err := reached(t, func() (err error) { p, err = d.Enter(t.Context(), c); return err }); err != nil {
		t.Fatalf("enter: %v", err)
	}
	if p.Holds != holds {
		t.Fatalf("enter = %+v; want holds %v", p, holds)
	}
	c.Ticket = p.Ticket
	return p
}

// reached calls until the store is reached: only a lost request shows that a connection was cut.
func reached(t testing.TB, call func() error) (err error) {
	t.Helper()
	servertest.Until(t, "the store is reached", func() bool {
		err = call()
		return !driver.IsUnreachable(err)
	})
	return err
}

func leave(t *testing.T, d driver.Driver, c *driver.Claim) {
	t.Helper()
	if err := d.Leave(t.Context(), &driver.Release{Claim: c}); err != nil {
		t.Fatalf("leave: %v", err)
	}
}

// turn waits until a claim holds, as a client does.
func turn(ctx context.Context, d driver.Driver, c *driver.Claim) (driver.Place, error) {
	for {
		p, err := d.Enter(ctx, c)
		if err != nil && (ctx.Err() != nil || !driver.IsUnreachable(err)) || p.Holds {
			return p, err
		}
		if _, err := d.Await(ctx, c); err != nil {
			return driver.Place{}, err
		}
	}
}

// An admin does what operators and other clients do, on a connection of its own.
type admin struct {
	t testing.TB
	s *wire.Session
}

func newAdmin(t testing.TB, addr string) *admin {
	t.Helper()
	a := &admin{t, wire.New(&wire.Config{Hosts: []string{addr}, Timeout: 10 * time.Second, Path: "/"})}
	t.Cleanup(func() { a.s.Close(true) })
	return a
}

func (a *admin) do(calls ...*wire.Call) {
	a.t.Helper()
	if err := a.s.Do(a.t.Context(), calls...); err != nil {
		a.t.Fatalf("%v", err)
	}
}

// children returns the names under a path, in order; none if the path does not exist.
func (a *admin) children(path string) []string {
	a.t.Helper()
	list := wire.List(path, nil)
	a.do(wire.Sync(path), list)
	if list.Err != nil && !errors.Is(list.Err, wire.NoNode) {
		a.t.Fatalf("children of %s: %v", path, list.Err)
	}
	slices.Sort(list.Children)
	return list.Children
}

// create makes nodes, unless they exist.
func (a *admin) create(paths ...string) {
	a.t.Helper()
	for _, path := range paths {
		c := wire.CreateContainer(path, wire.Open)
		if a.do(c); c.Err != nil && !errors.Is(c.Err, wire.NodeExists) {
			a.t.Fatalf("create %s: %v", path, c.Err)
		}
	}
}

func (a *admin) remove(path string) {
	a.t.Helper()
	c := wire.Delete(path)
	if a.do(c); c.Err != nil {
		a.t.Fatalf("delete %s: %v", path, c.Err)
	}
}

// until waits until a name under the default prefix has this number of claims.
func (a *admin) until(name string, n int) []string {
	a.t.Helper()
	var children []string
	servertest.Until(a.t, "the claims that should be there are", func() bool {
		children = a.children("/stile/" + name)
		return len(children) == n
	})
	return children
}

// node returns the name of a claim's node.
func (a *admin) node(c *driver.Claim) string {
	a.t.Helper()
	for _, name := range a.children("/stile/" + c.Name) {
		get := wire.Get("/stile/"+c.Name+"/"+name, nil)
		if a.do(get); get.Err == nil && get.Stat.Czxid == c.Ticket {
			return "/stile/" + c.Name + "/" + name
		}
	}
	a.t.Fatalf("there is no node of ticket %d", c.Ticket)
	return ""
}

// behind returns a proxy before a server, and the URL of a store behind the proxy with these parameters.
func behind(t *testing.T, s *servertest.Server, params ...string) (*servertest.Proxy, string) {
	t.Helper()
	p := servertest.NewProxy(t, s.Addr)
	return p, "zk://" + p.Addr + "?" + strings.Join(params, "&")
}
