package etcd_test

import (
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// The answer to the request that hangs a claim's key on the lease with the lock-delay is lost, but etcd did it. The
// claim that enters again holds by that lease, so the lease must not be revoked as one of no use.
func TestLostAnswerToLockDelay(t *testing.T) {
	t.Parallel()
	addr := servertest.Etcd(t).Addr
	d, h := heldUp(t, addr)
	c := drive.Claim("name", "a")
	c.Delay = time.Minute
	h.mu.Lock()
	h.loses = func(method string, req any) bool { // the second change of the key, which puts it and reads nothing
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
	h.revoking.Arrive() // what was revoked is revoked now
	if err := drive.Renew(t, d, c); err != nil {
		t.Errorf("renewal = %v; want the claim to stand", err)
	}
	other := drive.Claim("name", "b")
	other.Try = true
	drive.Waits(t, drive.Opener("etcd://"+addr)(t), other)
	drive.Leave(t, d, c)
}
