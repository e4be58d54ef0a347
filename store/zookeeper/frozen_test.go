package zookeeper_test

import (
	"testing"
	"time"

	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// One of three servers freezes. Without a leader the ensemble agrees on nothing: the followers give up a frozen leader after
// syncLimit ticks, here 1.6 s, and then elect another one.
func TestServerFreezes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name           string
		leads, clients bool // whether the server that freezes leads, and has the clients
		params         string
	}{
		{"the leader, with the clients", true, true, ""},
		{"the leader, in short sessions", true, false, "?session=6s"},
		{"a follower, with the clients", false, true, ""},
		{"a follower, with the clients, in short sessions", false, true, "?session=6s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			limit := "syncLimit=20" // so that the other two stay together on a busy machine
			if test.leads {
				limit = "syncLimit=8"
			}
			e := ensemble(servertest.ZooKeeperEnsemble(t, 3, limit))
			leader, others := e.led(t)
			frozen := others[0]
			if test.leads {
				frozen = leader
			}
			at := others[1]
			if test.clients {
				at = frozen
			}
			hosts := ensemble{at}
			var ways []*servertest.Proxy
			for _, s := range e {
				if s != at {
					p := servertest.NewProxy(t, s.Addr)
					p.Cut() // until the clients are with the other one
					ways, hosts = append(ways, p), append(hosts, &servertest.Server{Addr: p.Addr})
				}
			}
			drive.Frozen(t, hosts.url(test.params), 6*time.Second, func() {
				for _, p := range ways {
					p.Mend()
				}
				frozen.Pause()
				t.Cleanup(frozen.Resume)
				if test.leads {
					servertest.Until(t, "another one leads", func() bool {
						for _, s := range e {
							if s != frozen && s.ZooKeeperMode() == "leader" {
								return true
							}
						}
						return false
					})
				}
			})
		})
	}
}
