package zookeeper_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A server that was just elected can show a moment of the past, in which nodes of its clients are not there yet. A claim is
// gone only if a quorum says so: otherwise its node would stay, under a session that lives, and nobody would remove it.
func TestServerIsBehind(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]func(t *testing.T, f *fake, d driver.Driver, holder, waiter *driver.Claim){
		"the holder enters again": func(t *testing.T, f *fake, d driver.Driver, holder, _ *driver.Claim) {
			f.fallsBehind()
			enter(t, d, holder, true)
		},
		"the waiter enters again": func(t *testing.T, f *fake, d driver.Driver, _, waiter *driver.Claim) {
			f.fallsBehind()
			enter(t, d, waiter, false)
		},
		"the holder is renewed": func(t *testing.T, f *fake, d driver.Driver, holder, _ *driver.Claim) {
			f.fallsBehind()
			if err := d.Renew(t.Context(), []*driver.Claim{holder})[0].Err; err != nil {
				t.Errorf("renewal = %v; want nil", err)
			}
		},
		"the nodes are watched again": func(t *testing.T, f *fake, d driver.Driver, _, _ *driver.Claim) {
			f.cut()
			f.fallsBehind()
			servertest.Until(t, "a server that is behind was asked", func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				return f.stale > 1 || !f.behind
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, 0)
			d := open(t, "zk://"+f.addr)
			holder, waiter := claim("behind"), claim("behind")
			enter(t, d, holder, true)
			enter(t, d, waiter, false)
			look(t, f, d, holder, waiter)
			f.misled()
			for what, c := range map[string]*driver.Claim{"holder": holder, "waiter": waiter} {
				err := reached(t, func() error { return d.Renew(t.Context(), []*driver.Claim{c})[0].Err })
				if err != nil {
					t.Errorf("renewal of the %s = %v; want its claim to stand", what, err)
				}
			}
			leave(t, d, holder)
			enter(t, d, waiter, true)
			leave(t, d, waiter)
			if n := f.count(); n != 0 {
				t.Errorf("%d nodes are left; want none", n)
			}
		})
	}
}

// What a quorum says is gone is gone.
func TestGoneForCertain(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t)
	d, a := open(t, "zk://"+s.Addr), newAdmin(t, s.Addr)
	for name, ask := range map[string]func(c *driver.Claim) error{
		"enter": func(c *driver.Claim) error { _, err := d.Enter(t.Context(), c); return err },
		"renew": func(c *driver.Claim) error { return d.Renew(t.Context(), []*driver.Claim{c})[0].Err },
		"leave": func(c *driver.Claim) error { return d.Leave(t.Context(), &driver.Release{Claim: c}) },
	} {
		c := claim("gone-" + name)
		enter(t, d, c, true)
		a.remove(a.node(c))
		if err := ask(c); !errors.Is(err, driver.ErrGone) {
			t.Errorf("%s of a claim whose node was removed = %v; want ErrGone", name, err)
		}
		enter(t, d, claim(c.Name), true)
	}
}

// A lone server knows at once of whom it hears. When an ensemble takes its place, only what a quorum agrees on counts: the
// signs of life are such from then on.
func TestLoneServerGrows(t *testing.T) {
	t.Parallel()
	f := newFake(t, 0)
	d := open(t, "zk://"+f.addr)
	enter(t, d, claim("grows"), true)
	f.mu.Lock()
	if f.agreed != 0 {
		t.Errorf("a lone server was asked %d times for what a quorum agrees on; want never", f.agreed)
	}
	f.config = "server.1=a:1:2:participant\nserver.2=b:1:2:participant\nserver.3=c:1:2:participant\n"
	f.mu.Unlock()
	f.cut()
	servertest.Within(t, 30*time.Second, "a sign of life is one that a quorum agrees on", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.agreed > 0
	})
}
