package etcd

import (
	"context"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// Callers whose contexts end take the stream of keep-alives along, which is no answer of etcd to those who still wait.
func TestCallersThatEndFailNobody(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	proxy := servertest.NewProxy(t, s.Addr)
	d := open(t, proxy.Addr)
	patient, others := claimOn("patient"), claimOn("others")
	enter(t, d, patient)
	enter(t, d, others)
	renew := func(ctx context.Context, c *driver.Claim) chan error {
		renewed := make(chan error, 1)
		go func() { renewed <- d.Renew(ctx, []*driver.Claim{c})[0].Err }()
		return renewed
	}
	var (
		waits chan error  // of the patient renewal
		late  func() bool // its time is over, on a machine that stood still
	)
	until := func(what string, waiting int) {
		servertest.Until(t, what, func() bool {
			d.keepAliver.mu.Lock()
			now := d.keepAliver.now
			d.keepAliver.mu.Unlock()
			if now == nil {
				return len(waits) > 0 || late()
			}
			now.mu.Lock()
			defer now.mu.Unlock()
			return len(now.asked) == waiting || len(waits) > 0 || late()
		})
	}
	for again := true; again; {
		begun := time.Now()
		late = func() bool { return time.Since(begun) > patience }
		proxy.Freeze(true, true)
		waits = renew(timely(t), patient)
		until("a renewal waits", 1)
		for range streamTries {
			ctx, cancel := context.WithCancel(t.Context())
			leaves := renew(ctx, others)
			until("both wait", 2)
			cancel()
			if err := <-leaves; driver.OutcomeOf(err) != driver.OutcomeUnknown {
				t.Errorf("renewal whose caller's context ended = %v; want an unknown outcome", err)
			}
			until("the other asks again", 1)
		}
		proxy.Freeze(false, false)
		err := <-waits
		if again = err != nil && late(); err != nil && !again {
			t.Errorf("renewal beside others whose contexts ended = %v; want nil", err)
		}
	}
}
