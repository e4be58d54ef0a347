package etcd

import (
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

// If a claim of an earlier run comes between the read and the put of a claim that reclaims, it is removed too.
func TestReclaimOfWhatCameMeanwhile(t *testing.T) {
	t.Parallel()
	s := servertest.Etcd(t)
	d, other := open(t, s.Addr), open(t, s.Addr)
	holder, earlier, run := claimOn("name"), claimOn("name"), claimOn("name")
	earlier.Client, earlier.Owner = "earlier", "job"
	run.Client, run.Owner, run.Reclaim = "later", "job", true
	enter(t, other, holder)
	a := entering(t, d, run)
	step := func(when string) {
		t.Helper()
		m := joins(d.sit(a), a.v, nil)
		if was, err := d.change(timely(t), a, m); err != nil || !was.blocked() {
			t.Errorf("%s, %+v = %+v, %v; want it to find another queue", when, m, was, err)
		}
	}
	step("before anything was read")
	enter(t, other, earlier)
	step("after an earlier run has come")
	if p, _, err := d.enter(timely(t), a); err != nil || p.Ahead != 1 {
		t.Errorf("enter = %+v, %v; want it behind the holder only", p, err)
	}
	if e, err := d.find(timely(t), earlier); e != nil {
		t.Errorf("the earlier run stands as %+v, %v; want it gone", e, err)
	}
}
