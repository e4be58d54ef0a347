package zookeeper_test

import (
	"testing"
	"time"

	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// One of three servers freezes. Without a leader nothing is agreed on: the followers give a frozen one up after syncLimit ticks, here
// 0.8 s, and then elect another one. A lease of 3 s would bear each freeze on a machine that is not busy.
func TestServerFreezes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name           string
		leads, clients bool // the one that freezes does
		params         string
	}{
		{"the leader, with the clients", true, true, ""},
		{"the leader, in short sessions", true, false, "?session=6s"},
		{"a follower, with the clients", false, true, ""},
		{"a follower, with the clients, in short sessions", false, true, "?session=6s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := ensemble(servertest.ZooKeeperEnsemble(t, 3, "syncLimit=4"))
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
