package redis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/drive"
)

// Any one of three servers may freeze.
func TestRedlockNodeFreezes(t *testing.T) {
	t.Parallel()
	for at := range 3 {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			servers, url := redlockOf(t, 3, durable...)
			drive.Frozen(t, url, 10*time.Second, func() {
				servers[at].Pause()
				t.Cleanup(servers[at].Resume)
			})
		})
	}
}
