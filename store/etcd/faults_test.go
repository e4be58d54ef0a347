package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Each fault of the table is explained with its outcome and etcd's own words, and each row has an error of the library.
func TestFaults(t *testing.T) {
	t.Parallel()
	d := newDriver(DefaultPrefix)
	defer d.Close()
	if none := (rpctypes.EtcdError{}); faults[none].says != "" {
		t.Error("a row is for an error that etcd's library does not have")
	}
	for refusal, f := range faults {
		err := d.wire.explain(t.Context(), refusal)
		if driver.OutcomeOf(err) != f.outcome || driver.IsUnreachable(err) != f.passes {
			t.Errorf("%v: outcome %v, passes %v; want %+v", err, driver.OutcomeOf(err), driver.IsUnreachable(err), f)
		}
		says(t, err, strings.TrimPrefix(refusal.Error(), "etcdserver: "))
	}
	err := d.wire.explain(t.Context(), rpctypes.ErrGRPCTimeoutWaitAppliedIndex) // the library has no EtcdError for it
	says(t, err, "etcd does not serve at the moment (request timed out, waiting")
	if driver.NotApplied(err) || !driver.IsUnreachable(err) {
		t.Errorf("%v: want its outcome unknown, and that it may work later", err)
	}
	if err := d.wire.explain(t.Context(), rpctypes.ErrLeaseNotFound); !errors.Is(err, driver.ErrSession) {
		t.Errorf("a lease that is not there = %v; want ErrSession", err)
	}
}

// An idle client sends no pings. If it did, a server would end the connection after some 40 s, and the library would write
// ENHANCE_YOUR_CALM to standard error.
func TestIdleClientSendsNoPings(t *testing.T) {
	t.Parallel()
	a, err := driver.ParseAddress("etcd://127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := configOf(a)
	if err != nil || c.PermitWithoutStream || c.DialKeepAliveTime == 0 {
		t.Errorf("pings are sent every %v, when idle too: %v, %v; want them only while a stream is open",
			c.DialKeepAliveTime, c.PermitWithoutStream, err)
	}
}

// A full etcd refuses new claims, and the error says how to mend it. Holders are renewed, and leave.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t, "--quota-backend-bytes", "2097152")
	by, d := operator(t, s.Addr), open(t, s.Addr)
	holder := claimOn("name")
	enter(t, d, holder)
	big := strings.Repeat("x", 256<<10)
	servertest.Until(t, "etcd is full", func() bool {
		_, err := by.Put(timely(t), "big", big)
		return errors.Is(err, rpctypes.ErrNoSpace)
	})
	_, err := d.Enter(timely(t), claimOn("other"))
	says(t, err, "etcd has no space left")
	if driver.OutcomeOf(err) != driver.OutcomeRefused || driver.IsUnreachable(err) {
		t.Errorf("enter = %v; want it refused for good", err)
	}
	if err := renew(t, d, holder); err != nil {
		t.Errorf("renewal = %v; want nil", err)
	}
	leave(t, d, holder)
	r, err := by.Get(timely(t), "big")
	if err != nil {
		t.Fatal(err)
	}
	_, e1 := by.Compact(timely(t), r.Header.Revision)
	_, e2 := by.Defragment(timely(t), s.Addr)
	_, e3 := by.AlarmDisarm(timely(t), &clientv3.AlarmMember{})
	if err := errors.Join(e1, e2, e3); err != nil {
		t.Fatal(err)
	}
	servertest.Until(t, "a claim enters again", func() bool {
		_, err := d.Enter(timely(t), holder)
		return err == nil || errors.Is(err, driver.ErrGone)
	})
	enter(t, d, claimOn("other"))
}

// A member that has lost its leader refuses requests at once, and certainly does not apply them.
func TestNoLeader(t *testing.T) {
	t.Parallel()
	members := servertest.EtcdCluster(t, 3)
	d := open(t, members[0].Addr)
	c := claimOn("name")
	enter(t, d, c)
	members[1].Kill()
	members[2].Kill()
	var err error
	servertest.Until(t, "the member knows that there is no leader", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err = d.Enter(ctx, claimOn("other"))
		return err != nil && strings.Contains(err.Error(), "no leader")
	})
	if !driver.NotApplied(err) || !driver.IsUnreachable(err) {
		t.Errorf("enter = %v; want it not applied, and that it may work later", err)
	}
	err = d.Leave(timely(t), &driver.Release{Claim: c})
	if !driver.IsUnreachable(err) {
		t.Errorf("leave = %v; want that it may work later", err)
	}
	members[1].Restart()
	servertest.Until(t, "the claim leaves", func() bool {
		err := d.Leave(timely(t), &driver.Release{Claim: c})
		return err == nil || errors.Is(err, driver.ErrGone)
	})
}
