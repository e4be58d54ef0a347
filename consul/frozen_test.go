package consul

import (
	"net/http"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// One of three servers freezes that is not the client's own: that one is the client's only way. A leader is missed for a second or
// two, in which no lease of 3 s is renewed; the shortest session of a server that is not one of tests is 10 s.
func TestServerFreezes(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]time.Duration{"leader": 10 * time.Second, "follower": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := servertest.ConsulCluster(t, 3, nil)
			frozen, own, _ := led(t, list)
			if name == "follower" {
				frozen, own = own, frozen
			}
			drive.Frozen(t, "consul://"+own.Addr, lease, func() {
				frozen.Pause()
				t.Cleanup(frozen.Resume)
				client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
				servertest.Until(t, "the others serve", func() bool {
					answer, err := client.Get("http://" + own.Addr + "/v1/kv/?keys&consistent")
					if err != nil {
						return false
					}
					answer.Body.Close()
					return answer.StatusCode != http.StatusInternalServerError
				})
			})
		})
	}
}
