package redis_test

import (
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// All servers are killed while a claim holds, and come back with it. The holder is renewed, and no other claim holds before
// it has left.
func TestRestartWithData(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		servers int
		url     func(of string) string
	}{
		{"redlock", 3, func(of string) string { return of + "?max_ttl=1m" }},
		{"setnx", 1, func(of string) string { return "redis" + of[len("redlock"):] + "?layout=setnx" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			servers, of := redlockOf(t, tt.servers, durable...)
			d, other := openRedlock(t, tt.url(of)), openRedlock(t, tt.url(of))
			c, second := redlockClaim("kept", "holder"), redlockClaim("kept", "second")
			c.TTL, second.TTL, second.Try = time.Minute, time.Second, true // longer than the servers are down
			holds(t, d, c)
			for _, s := range servers {
				s.Kill()
			}
			for _, s := range servers {
				s.Restart()
			}
			servertest.Until(t, "the holder is renewed", func() bool {
				return d.Renew(t.Context(), []*driver.Claim{c})[0].Err == nil
			})
			servertest.Until(t, "another is refused by the servers", func() bool {
				p, err := try(t, other, second)
				if err == nil && p.Holds {
					t.Fatal("two hold after the restart")
				}
				return err == nil
			})
			leaves(t, d, c)
			servertest.Until(t, "the other holds", func() bool {
				p, err := try(t, other, second)
				return err == nil && p.Holds
			})
		})
	}
}
