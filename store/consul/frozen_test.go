package consul

import (
	"net/http"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// One of three servers freezes, but not the client's own, which is its only way to the store. After a leader's end the
// servers need a second or two for another, in which a lease of 3 s would run out; outside tests a session has at least 10
// s.
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

// The agent passes a renewal on to a leader that has just frozen, and gets no answer. The next leader renews the claim.
func TestRenewalAtAFrozenLeader(t *testing.T) {
	t.Parallel()
	leader, own, _ := led(t, servertest.ConsulCluster(t, 3, nil))
	d, c := open(t, "consul://"+own.Addr), claimOn("name")
	holds(t, d, c)
	leader.Pause()
	t.Cleanup(leader.Resume)
	ctx, cancel := contextOf(t, c.TTL*3/4)
	defer cancel()
	if err := d.Renew(ctx, []*driver.Claim{c})[0].Err; err != nil {
		t.Errorf("renewal = %v; want nil", err)
	}
}
