//go:build unix

package drive

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

const (
	// patience is a client's default.
	patience = 5 * time.Second

	// silentMost is within which a client has turned away from a connection whose first request gets no answer. Half of
	// the session that the tests take is more.
	silentMost = 12 * time.Second
)

// Silent loses the connections between a client and its server, and leaves the first request on the next one without
// an answer, as a server may that is just starting. The claim must be renewed on a later connection.
func Silent(t *testing.T, server string, url func(addrs ...string) string) {
	t.Helper()
	proxy := servertest.NewProxy(t, server)
	d := Opener(url(proxy.Addr))(t)
	t.Cleanup(func() { _ = d.Close() }) // its connections were cut
	c := Claim("silent", "one")
	Holds(t, d, c)
	proxy.Cut()
	proxy.Hold(0)
	proxy.Mend()
	renewed := make(chan error, 1)
	renew := func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		renewed <- d.Renew(ctx, []*driver.Claim{c})[0].Err
	}
	go renew()
	servertest.Until(t, "a request is left without an answer", func() bool {
		select {
		case err := <-renewed: // on a connection that was lost
			t.Logf("renewal: %v", err)
			go renew()
		default:
		}
		return proxy.Held() > 0
	})
	proxy.Pass()
	servertest.Within(t, silentMost, "the claim is renewed", func() bool {
		select {
		case err := <-renewed:
			if err == nil {
				return true
			}
			go renew()
		default:
		}
		return false
	})
	Leave(t, d, c)
}

// Zone lets a client reach a server at an address with a zone, written as in a URL (RFC 6874). The loopback accepts every
// zone.
func Zone(t *testing.T, server string, url func(addrs ...string) string) {
	t.Helper()
	loopback, err := net.InterfaceByIndex(1)
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(servertest.NewProxyAt(t, "[::1]:0", server).Addr)
	if err != nil {
		t.Fatal(err)
	}
	Holds(t, Opener(url("[::1%25"+loopback.Name+"]:"+port))(t), Claim("zone", "one"))
}
