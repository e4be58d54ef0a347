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

// A claim is not said to be gone before that is proven: one whose Leave got no answer, and one whose Enter got none.
func TestGoneIsProven(t *testing.T) {
	t.Parallel()
	for _, holds := range []bool{true, false} {
		t.Run(map[bool]string{true: "holds", false: "enters"}[holds], func(t *testing.T) {
			t.Parallel()
			proxy := servertest.NewProxy(t, server.Addr)
			d := open(t, at(&servertest.Server{Addr: proxy.Addr}, "session_timeout=2s"))
			other := open(t, at(server))
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

// What a connection had that was given up is free soon if the server can be reached, long before it would find out itself.
func TestGhostIsEnded(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, server.Addr)
	d := open(t, at(&servertest.Server{Addr: proxy.Addr}, "session_timeout=10m"))
	a := claim(rand.Text(), rand.Text())
	enter(t, d, a, true)
	proxy.Hold(0) // what is held never arrives, nor does the end of its connection
	proxy.Pass()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.Leave(ctx, &driver.Release{Claim: a}); err != nil {
		t.Errorf("leave = %v; want nil, since it is proven", err)
	}
	try := claim(a.Name, rand.Text())
	try.Try = true
	enter(t, open(t, at(server)), try, true)
}

// The scout has its key, and the connection of that gets no answer any more: to the heartbeat that a late grant needs, or none
// is asked for since the claim has left. The server could be asked by another connection, and so the key is free soon.
func TestGhostOfScoutIsEnded(t *testing.T) {
	t.Parallel()
	for _, left := range []bool{false, true} {
		t.Run(map[bool]string{true: "left", false: "late"}[left], func(t *testing.T) {
			t.Parallel()
			proxy := servertest.NewProxy(t, server.Addr)
			application := "scout-" + rand.Text()
			one := open(t, at(server))
			two := open(t, at(&servertest.Server{Addr: proxy.Addr}, "session_timeout=10m", "application_name="+application))
			held := claim(rand.Text(), rand.Text())
			next := claim(held.Name, rand.Text())
			enter(t, one, held, true)
			told := waits(t, two, next)
			servertest.Until(t, "the scout waits", func() bool { return inServer(t, application) == 1 })
			ctx := timely(t)
			if err := two.order(ctx, func() {
				if err := one.Leave(ctx, &driver.Release{Claim: held}); err != nil {
					t.Error(err)
				}
				answer := <-two.scout.back
				proxy.Hold(0) // what is held never arrives, nor does the end of its connection
				proxy.Pass()
				two.crew.spare.timeout = time.Second
				two.scout.sent = two.scout.sent.Add(-two.timeout)
				if left {
					if err := two.leave(next.ID, 0); err != nil {
						t.Error(err)
					}
				}
				two.returned(answer)
			}); err != nil {
				t.Fatal(err)
			}
			if left {
				servertest.Until(t, "somebody else holds", func() bool {
					try := claim(held.Name, rand.Text())
					try.Try = true
					p, err := one.Enter(timely(t), try)
					return err == nil && p.Holds
				})
			} else if p := <-told; !p.Holds {
				t.Errorf("the waiter was told %+v", p)
			}
		})
	}
}

// A heartbeat that gets no answer ends the session, and with it the claims. What the server has of them is ended there too.
func TestGhostOfHolderIsEnded(t *testing.T) {
	t.Parallel()
	proxy := servertest.NewProxy(t, server.Addr)
	d, other := open(t, at(&servertest.Server{Addr: proxy.Addr}, "session_timeout=10m")), open(t, at(server))
	a := claim(rand.Text(), rand.Text())
	enter(t, d, a, true)
	if err := d.order(timely(t), func() { d.crew.main.timeout = time.Second }); err != nil {
		t.Fatal(err)
	}
	proxy.Hold(0)
	proxy.Pass()
	if err := renew(t, d, a); err == nil {
		t.Fatal("a renewal that cannot arrive is answered")
	}
	if err := renew(t, d, a); !errors.Is(err, driver.ErrSession) {
		t.Errorf("the next renewal = %v; want ErrSession", err)
	}
	servertest.Until(t, "somebody else holds", func() bool {
		try := claim(a.Name, rand.Text())
		try.Try = true
		p, err := other.Enter(timely(t), try)
		return err == nil && p.Holds
	})
}

// A ghost goes only the ways that are drawn.
func TestGhostMoves(t *testing.T) {
	t.Parallel()
	drawn := map[[2]ghostState]bool{{ghostLive, ghostHaunts}: true, {ghostHaunts, ghostGone}: true}
	for was := ghostLive; was <= ghostGone; was++ {
		for next := ghostLive; next <= ghostGone; next++ {
			g := ghost{state: was}
			if got, want := g.move(next), drawn[[2]ghostState{was, next}]; got != want || (g.state == next) != (want || was == next) {
				t.Errorf("from %d to %d: %v, in %d; want %v", was, next, got, g.state, want)
			}
		}
	}
}
