//go:build unix

package advisory

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// through returns the URL of a proxy.
func through(p *servertest.Proxy, params ...string) string {
	return at(&servertest.Server{Addr: p.Addr}, params...)
}

// holdsSoon waits until another client can lock a name.
func holdsSoon(t *testing.T, other driver.Driver, name string) {
	t.Helper()
	servertest.Until(t, "somebody else holds", func() bool {
		try := claim(name, rand.Text())
		try.Try = true
		p, err := other.Enter(timely(t), try)
		return err == nil && p.Holds
	})
}

// A claim is reported gone only with proof, after an unanswered Leave and after an unanswered Enter.
func TestGoneIsProven(t *testing.T) {
	t.Parallel()
	for _, holds := range []bool{true, false} {
		t.Run(map[bool]string{true: "holds", false: "enters"}[holds], func(t *testing.T) {
			t.Parallel()
			proxy := servertest.NewProxy(t, home.Addr)
			d, other := client(t, through(proxy, "session_timeout=2s")), client(t, at(home))
			a := claim(rand.Text(), rand.Text())
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if holds {
				enter(t, d, a, true)
			}
			proxy.Freeze(holds, true)
			if !holds {
				if _, err := d.Enter(ctx, a); driver.OutcomeOf(err) != driver.OutcomeUnknown {
					t.Fatalf("enter = %v, %v; want an unknown outcome", err, driver.OutcomeOf(err))
				}
			}
			for range 2 {
				err := d.Leave(ctx, &driver.Release{Claim: a})
				if driver.OutcomeOf(err) != driver.OutcomeUnknown || errors.Is(err, driver.ErrGone) {
					t.Errorf("leave = %v, %v; want an unknown outcome", err, driver.OutcomeOf(err))
				}
			}
			proxy.Cut()
			proxy.Mend()
			servertest.Until(t, "the claim is proven to be gone", func() bool {
				err := d.Leave(ctx, &driver.Release{Claim: a})
				return err == nil || errors.Is(err, driver.ErrGone)
			})
			try := claim(a.Name, rand.Text())
			try.Try = true
			enter(t, other, try, true)
		})
	}
}

// The locks of a connection that was given up are soon free if the server can be reached, long before the server would
// notice itself.
func TestGhostIsEnded(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, home.Addr)
	d := client(t, through(proxy, "session_timeout=10m"))
	a := claim(rand.Text(), rand.Text())
	enter(t, d, a, true)
	proxy.Hold(0) // held messages never arrive, nor does the end of their connection
	proxy.Pass()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.Leave(ctx, &driver.Release{Claim: a}); err != nil {
		t.Errorf("leave = %v; want nil, since it is proven", err)
	}
	try := claim(a.Name, rand.Text())
	try.Try = true
	enter(t, client(t, at(home)), try, true)
}

// An unanswered heartbeat ends the session, and with it the claims. Their locks in the server end too.
func TestGhostOfHolderIsEnded(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, home.Addr)
	d, other := client(t, through(proxy, "session_timeout=10m")), client(t, at(home))
	a := claim(rand.Text(), rand.Text())
	enter(t, d, a, true)
	proxy.Hold(0)
	proxy.Pass()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if r := d.Renew(ctx, []*driver.Claim{a})[0]; r.Err == nil {
		t.Fatal("a renewal that cannot arrive is answered")
	}
	if err := renew(t, d, a); !errors.Is(err, driver.ErrSession) {
		t.Errorf("the next renewal = %v; want ErrSession", err)
	}
	holdsSoon(t, other, a.Name)
}

// The address leads to a standby for a while, as in a failover that fails. The standby does not know the connection's tag,
// which does not prove that its locks are free.
func TestGhostIsNotSoughtAtStandby(t *testing.T) {
	t.Parallel()
	primary, standby := servertest.PostgresPair(t)
	proxy := servertest.NewProxy(t, primary.Addr)
	d := client(t, through(proxy, "session_timeout=10m"))
	a := claim(rand.Text(), rand.Text())
	enter(t, d, a, true)
	proxy.Hold(0) // held messages never arrive, nor does the end of their connection
	proxy.Retarget(standby.Addr)
	proxy.Pass()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := d.Leave(ctx, &driver.Release{Claim: a})
	if err == nil || driver.OutcomeOf(err) != driver.OutcomeUnknown {
		t.Errorf("leave, while a standby answers, = %v, %v; want an unknown outcome", err, driver.OutcomeOf(err))
	}
	proxy.Retarget(primary.Addr)
	servertest.Until(t, "the claim is proven to be gone", func() bool {
		err := d.Leave(timely(t), &driver.Release{Claim: a})
		return err == nil || errors.Is(err, driver.ErrGone)
	})
	try := claim(a.Name, rand.Text())
	try.Try = true
	enter(t, client(t, at(primary)), try, true)
}
