//go:build unix

package mysql

import (
	"crypto/rand"
	"errors"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// The address leads to a replica for a while. It has user-level locks of its own: a claim does not get one there that somebody holds
// at the primary, and that it does not know a connection is no proof that the connection is gone.
func TestSessionAtReplica(t *testing.T) {
	t.Parallel()
	primary, replica := servertest.MySQL(t), servertest.MySQL(t)
	mustExec(t, raw(t, replica, ""), "SET GLOBAL read_only = ON")
	proxy := servertest.NewProxy(t, primary.Addr)
	d, other := openSessionAt(t, sessionAt(proxy.Addr, "session_timeout=10m")), openSessionAt(t, sessionAt(primary.Addr))
	held, _ := holding(t, other)
	a, conn := holding(t, d)
	proxy.Hold(0) // what is held never arrives, nor does the end of its connection
	proxy.Retarget(replica.Addr)
	proxy.Pass()
	d.condemn(conn) // as a heartbeat without an answer does
	try := claim(held.Name, rand.Text())
	try.Try = true
	if p, err := d.Enter(timely(t), try); p.Holds || err == nil {
		t.Errorf("enter at a replica = %+v, %v; want an error", p, err)
	} else {
		says(t, err, "read-only")
		marks(t, err, true, true)
	}
	if err := d.bury(timely(t), conn); !errors.Is(err, errReadOnly) {
		t.Errorf("bury at a replica = %v; want %v", err, errReadOnly)
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
