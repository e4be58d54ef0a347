package etcd_test

import (
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Break describes the claim at the moment of its removal: the claim before it may have left since the queue was read.
func TestBreakTellsHowTheClaimStood(t *testing.T) {
	t.Parallel()
	addr := servertest.Etcd(t).Addr
	other, _ := heldUp(t, addr)
	d, h := heldUp(t, addr)
	first, second := drive.Claim("name", "a"), drive.Claim("name", "b")
	drive.Holds(t, other, first)
	p, err := other.Enter(drive.Timely(t), second)
	if err != nil || p.Holds {
		t.Fatalf("enter = %+v, %v; want that it waits", p, err)
	}
	leaves := 0
	h.mu.Lock()
	h.loses = func(_ string, req any) bool {
		if r, ok := req.(*pb.TxnRequest); ok && removes(r) {
			if leaves++; leaves == 1 {
				if err := other.Leave(drive.Timely(t), &driver.Release{Claim: first}); err != nil {
					t.Errorf("leave = %v", err)
				}
			}
		}
		return false
	}
	h.mu.Unlock()
	got, err := d.Break(drive.Timely(t), &driver.BreakRequest{Name: "name", Ticket: p.Ticket})
	if err != nil || leaves == 0 || !got.Holds {
		t.Errorf("break of a claim that holds by then = %+v, %v, after %d requests; want one that holds", got, err, leaves)
	}
}

// removes reports whether a transaction deletes a key.
func removes(r *pb.TxnRequest) bool {
	for _, op := range r.Success {
		if op.GetRequestDeleteRange() != nil {
			return true
		}
	}
	return false
}
