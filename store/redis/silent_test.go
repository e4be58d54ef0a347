package redis_test

import (
	"testing"

	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// A server that starts may leave a request unanswered. The client then uses another connection.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{"queue", "setnx"} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			drive.Silent(t, servertest.Redis(t).Addr, func(addrs ...string) string { return "redis://" + addrs[0] + "?layout=" + layout })
		})
	}
}

// A URL may have the zone of an IPv6 address.
func TestZone(t *testing.T) {
	t.Parallel()
	drive.Zone(t, servertest.Redis(t).Addr, func(addrs ...string) string { return "redis://" + addrs[0] })
}
