package etcd_test

import (
	"context"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/etcd"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// etcd attaches a claim's key to the lease with the lock-delay, and the answer is lost. The claim enters again, and holds by
// this lease. So the lease must not be revoked as an unused one.
func TestLostAnswerToLockDelay(t *testing.T) {
	t.Parallel()
	addr := servertest.Etcd(t).Addr
	d, h := heldUp(t, addr)
	c := drive.Claim("name", "a")
	c.Delay = time.Minute
	h.mu.Lock()
	h.loses = func(method string, req any) bool { // the second put of the key; it reads nothing
		r, ok := req.(*pb.TxnRequest)
		return ok && len(r.Success) == 1 && r.Success[0].GetRequestPut() != nil && len(r.Failure) == 0
	}
	h.revoking.Hold(0)
	h.mu.Unlock()
	if _, err := d.Enter(drive.Timely(t), c); driver.NotApplied(err) {
		t.Fatalf("enter whose answer is lost = %v; want that its outcome is unknown", err)
	}
	h.mu.Lock()
	lost := h.lost
	h.loses = nil
	h.mu.Unlock()
	if lost != 1 {
		t.Fatalf("%d answers were lost; want 1", lost)
	}
	drive.Holds(t, d, c)
	h.revoking.Arrive() // revocations that were sent arrive now
	if err := drive.Renew(t, d, c); err != nil {
		t.Errorf("renewal = %v; want the claim to stand", err)
	}
	other := drive.Claim("name", "b")
	other.Try = true
	drive.Waits(t, drive.Opener("etcd://"+addr)(t), other)
	drive.Leave(t, d, c)
}

// If a client has given up Identity, and another client has put an id meanwhile, the late put of the first changes nothing.
func TestIdentityLate(t *testing.T) {
	t.Parallel()
	addr := servertest.Etcd(t).Addr
	d, h := heldUp(t, addr)
	other := drive.Opener("etcd://" + addr)(t).(*etcd.Driver)
	defer other.Close()
	h.Hold(1) // the read passes, and the put is held up
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := d.Identity(ctx)
		ended <- err
	}()
	servertest.Until(t, "a request is held up", func() bool { return h.Held() > 0 })
	cancel()
	if err := <-ended; err == nil || driver.OutcomeOf(err) == driver.OutcomeRefused {
		t.Errorf("identity without an answer = %v; want an unknown outcome", err)
	}
	id, err := other.Identity(drive.Timely(t))
	if err != nil {
		t.Fatal(err)
	}
	h.Pass()
	h.Arrive()
	for _, asked := range []*etcd.Driver{d, other} {
		if got, err := asked.Identity(drive.Timely(t)); got != id || err != nil {
			t.Errorf("the id is %q, %v; want %q, as another client has it", got, err, id)
		}
	}
}
