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
