//go:build unix

package mysql

import (
	"crypto/rand"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// The address leads to a replica for a while. It has user-level locks of its own. A client must not take a lock there that
// is held at the primary. That the replica does not know a connection does not prove that the connection has ended.
func TestSessionAtReplica(t *testing.T) {
	t.Parallel()
	primary, replica := servertest.MySQL(t), servertest.MySQL(t)
	mustExec(t, raw(t, replica, ""), "SET GLOBAL read_only = ON")
	proxy := servertest.NewProxy(t, primary.Addr)
	other := openSessionAt(t, sessionAt(primary.Addr))
	locks := locksAt(t, sessionAt(proxy.Addr, "session_timeout=10m"))
	d, err := locks.open(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	held, a := claim(rand.Text(), rand.Text()), claim(rand.Text(), rand.Text())
	mustEnter(t, other, held, true)
	mustEnter(t, d, a, true)
	proxy.Hold(0) // held messages never arrive, nor does the end of their connection
	proxy.Retarget(replica.Addr)
	proxy.Pass()
	if err := renewed(t, d, a); err == nil {
		t.Fatal("a renewal that cannot arrive is answered")
	}
	try := claim(held.Name, rand.Text())
	try.Try = true
	if p, err := d.Enter(timely(t), try); p.Holds || err == nil {
		t.Errorf("enter at a replica = %+v, %v; want an error", p, err)
	} else {
		says(t, err, "read-only")
		marks(t, err, true, true)
	}
	if locks.Gone(timely(t), &userConn{tag: "stile-conn-none"}) {
		t.Error("a replica has proven that a connection to the primary is gone")
	}
	proxy.Retarget(primary.Addr)
	servertest.Until(t, "somebody else holds", func() bool {
		try := claim(a.Name, rand.Text())
		try.Try = true
		p, err := other.Enter(timely(t), try)
		return err == nil && p.Holds
	})
	again := claim(rand.Text(), rand.Text())
	servertest.Until(t, "the primary gives locks", func() bool {
		p, err := d.Enter(timely(t), again)
		if err == nil && !p.Holds {
			t.Errorf("enter = %+v; want that it holds", p)
		}
		return err == nil
	})
	if err := d.Leave(timely(t), &driver.Release{Claim: again}); err != nil {
		t.Error(err)
	}
}
