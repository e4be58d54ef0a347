package zookeeper_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/servertest"
)

// behindFake makes a server that can be behind, or lose the others. If config is empty, the server is a lone one, which
// belongs to an ensemble by the time that it loses the others.
func behindFake(t testing.TB, config string) *drivertest.Behind {
	f := newFake(t, 0)
	f.config, f.lasts = config, 2*time.Second
	return &drivertest.Behind{
		Driver: open(t, "zk://"+f.addr), Session: f.lasts, Left: f.count,
		FallsBehind: f.fallsBehind,
		Reconnect:   f.cut,
		Looked: func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.stale > 1 || !f.behind
		},
		CatchesUp: func() { f.misled() },
		Alone: func() {
			f.mu.Lock()
			f.config, f.alone = three, true
			f.mu.Unlock()
			if config == "" {
				f.cut()
			}
		},
	}
}

// A claim is gone if a quorum agrees that its node is gone.
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

// A lone server needs no agreement. When an ensemble takes its place, only answers to which a quorum agreed count, and the
// signs of life ask for such answers from then on.
func TestLoneServerGrows(t *testing.T) {
	t.Parallel()
	f := newFake(t, 0)
	d := open(t, "zk://"+f.addr)
	enter(t, d, claim("grows"), true)
	f.mu.Lock()
	if f.agreed != 0 {
		t.Errorf("a lone server was asked %d times for what a quorum agrees on; want never", f.agreed)
	}
	f.config = three
	f.mu.Unlock()
	f.cut()
	servertest.Within(t, 30*time.Second, "a sign of life is one that a quorum agrees on", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.agreed > 0
	})
}
