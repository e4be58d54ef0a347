package consul

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
)

// led returns the leader of three servers, and the others.
func led(t *testing.T, list []*servertest.Server) (leader, other, third *servertest.Server) {
	t.Helper()
	var addr string
	by := operator{t, "http://" + list[0].Addr}
	if err := json.Unmarshal(by.must(http.MethodGet, "status/leader", ""), &addr); err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if strings.HasSuffix(addr, fmt.Sprint(":", s.Ports[1])) {
			leader = s
		} else {
			other, third = s, other
		}
	}
	if leader == nil {
		t.Fatalf("no server is the leader %s", addr)
	}
	return leader, other, third
}

// The leader is killed while one claim holds and one waits. The holder still holds, and the waiter is next. Then a second
// server is killed, and comes back.
func TestLeaderIsKilled(t *testing.T) {
	t.Parallel()
	list := servertest.ConsulCluster(t, 3, nil)
	lane := awake.Lane(t)
	killed, other, third := led(t, list)
	d := open(t, "consul://"+other.Addr)
	if !d.Traits().Failover {
		t.Error("the driver does not count on a failover")
	}
	c := lockers(t, "consul://"+other.Addr, &stile.Options{LockOptions: stile.LockOptions{TTL: 30 * time.Second}})
	lease := lockOf(t, c.Mutex("name"))
	waiter := claimOn("name")
	waits(t, d, waiter)
	elsewhere := claimOn("name")
	elsewhere.Try = true
	waits(t, open(t, "consul://"+third.Addr), elsewhere) // the claim also waits behind the holder at another server
	killed.Kill()
	servertest.Until(t, "there is another leader", func() bool { return renew(t, d, waiter) == nil })
	if err := lease.Check(); err != nil {
		t.Errorf("the holder = %v; want nil", err)
	}
	if p := enter(t, d, waiter); p.Holds || p.Ahead != 1 {
		t.Errorf("the waiter's place is %+v; want one ahead", p)
	}
	if err := lease.Unlock(); err != nil {
		t.Errorf("unlock = %v", err)
	}
	holds(t, d, waiter)
	if waiter.Ticket*1024 <= lease.Token() {
		t.Errorf("ticket %d is not above token %d", waiter.Ticket, lease.Token())
	}

	// Without a majority no claim holds, and no call hangs.
	third.Kill()
	const limit = 3 * time.Second
	start := time.Now()
	ctx, cancel := contextOf(t, limit)
	defer cancel()
	if p, err := d.Enter(ctx, claimOn("another")); err == nil || p.Holds {
		t.Errorf("enter without a majority = %+v, %v; want an error", p, err)
	}
	lane.Within(time.Since(start), limit+time.Second, "the end of a call whose context lasts for %v", limit)
	third.Restart()
	servertest.Until(t, "the waiter that holds is renewed again", func() bool { return renew(t, d, waiter) == nil })
	holds(t, d, claimOn("another"))
}
