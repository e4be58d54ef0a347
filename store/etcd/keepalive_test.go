package etcd

import (
	"context"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// If the contexts of callers end, the stream of keep-alives goes on for the others. Else, over a slow connection, callers
// with less time than an answer takes would keep all others from an answer.
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
		waits chan error  // the result of the patient renewal
		late  func() bool // reports whether the renewal or the stream may have timed out, on a machine that stood still
	)
	until := func(what string, asked int) (on *stream) {
		servertest.Until(t, what, func() bool {
			d.keepAliver.mu.Lock()
			on = d.keepAliver.now
			d.keepAliver.mu.Unlock()
			if on == nil {
				return len(waits) > 0 || late()
			}
			on.mu.Lock()
			defer on.mu.Unlock()
			return len(on.asked) == asked || len(waits) > 0 || late()
		})
		return on
	}
	for again := true; again; {
		begun := time.Now()
		late = func() bool { return time.Since(begun) > silence }
		proxy.Freeze(true, true)
		waits = renew(timely(t), patient)
		first := until("a renewal waits", 1)
		for n := range 2 * streamTries {
			ctx, cancel := context.WithCancel(t.Context())
			leaves := renew(ctx, others)
			on := until("both wait", n+2)
			cancel()
			if err := <-leaves; driver.OutcomeOf(err) != driver.OutcomeUnknown && !late() {
				t.Errorf("renewal whose caller's context ended = %v; want an unknown outcome", err)
			}
			if on != first && !late() {
				t.Errorf("after %d callers left there is another stream", n)
			}
		}
		proxy.Freeze(false, false)
		err := <-waits
		if again = err != nil && late(); err != nil && !again {
			t.Errorf("renewal beside others whose contexts ended = %v; want nil", err)
		}
	}
}

// If a caller gave up, a stream of keep-alives that stays silent is given up.
func TestSilentStreamIsGivenUp(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	proxy := servertest.NewProxy(t, s.Addr)
	d := open(t, proxy.Addr)
	c := claimOn("name")
	enter(t, d, c)
	if err := d.Renew(timely(t), []*driver.Claim{c})[0].Err; err != nil {
		t.Fatal(err)
	}
	on := d.keepAliver.stream()
	proxy.Freeze(true, true)
	ctx, cancel := context.WithCancel(timely(t))
	renewed := make(chan error, 1)
	go func() { renewed <- d.Renew(ctx, []*driver.Claim{c})[0].Err }()
	servertest.Until(t, "the renewal waits", func() bool {
		on.mu.Lock()
		defer on.mu.Unlock()
		return len(on.asked) > 0 || len(renewed) > 0
	})
	cancel()
	if err := <-renewed; driver.OutcomeOf(err) != driver.OutcomeUnknown {
		t.Errorf("renewal whose caller's context ended = %v; want an unknown outcome", err)
	}
	select {
	case <-on.over:
	case <-timely(t).Done():
		t.Error("the stream goes on")
	}
	proxy.Freeze(false, false)
	if err := d.Renew(timely(t), []*driver.Claim{c})[0].Err; err != nil {
		t.Errorf("renewal after that = %v; want nil", err)
	}
}
