//go:build unix

package advisory

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// The address leads to a standby for a while, as it may around a failover that fails. That a standby does not know what a connection
// had is no proof that it is gone.
func TestGhostIsNotSoughtAtStandby(t *testing.T) {
	t.Parallel()
	primary, standby := servertest.PostgresPair(t)
	proxy := servertest.NewProxy(t, primary.Addr)
	d := open(t, at(&servertest.Server{Addr: proxy.Addr}, "session_timeout=10m"))
	a := claim(rand.Text(), rand.Text())
	enter(t, d, a, true)
	if err := d.order(timely(t), func() { d.crew.main.timeout = time.Second }); err != nil {
		t.Fatal(err)
	}
	proxy.Hold(0) // what is held never arrives, nor does the end of its connection
	proxy.Retarget(standby.Addr)
	proxy.Pass()
	err := d.Leave(timely(t), &driver.Release{Claim: a})
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
	enter(t, open(t, at(primary)), try, true)
}
