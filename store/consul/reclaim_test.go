package consul

import (
	"fmt"
	"testing"

	"github.com/stilelock/stile/internal/servertest"
)

// A claim with Reclaim also removes an earlier run's claim that enters between its read and its transaction.
func TestReclaimOfWhatCameMeanwhile(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	d, other := open(t, "consul://"+s.Addr), open(t, "consul://"+s.Addr)
	for _, test := range []struct {
		name  string
		try   bool
		ahead bool // another claim holds
	}{{"free", false, false}, {"held", false, true}, {"try", true, false}} {
		t.Run(test.name, func(t *testing.T) {
			earlier, run := claimOn(test.name), claimOn(test.name)
			earlier.Owner = "job"
			run.Owner, run.Reclaim, run.Try = "job", true, test.try
			want := 0
			if test.ahead {
				enter(t, other, claimOn(test.name))
				want = 1
			}
			q, err := d.look(timely(t), run.Name)
			if err != nil || len(q.entries) != want {
				t.Fatalf("the queue is %+v, %v; want %d claims", q, err, want)
			}
			enter(t, other, earlier)
			m, lc, after, err := d.join(timely(t), run, q)
			for range rounds {
				if err != nil || m.end != endAgain {
					break
				}
				if q, err = d.look(timely(t), run.Name); err == nil { // as enterNew does
					m, lc, after, err = d.join(timely(t), run, q)
				}
			}
			if err != nil || m.end != endEntered {
				t.Fatalf("join = %+v, %v", m, err)
			}
			p, err := d.entered(timely(t), run, lc, after)
			if err != nil || p.Ahead != want || p.Holds != (want == 0) {
				t.Errorf("entered = %+v, %v; want %d ahead", p, err, want)
			}
			if q, err := d.look(timely(t), run.Name); err != nil || q.find(earlier.ID) != nil {
				t.Errorf("the earlier run stands in %+v, %v; want it gone", q, err)
			}
		})
	}
}

// An earlier run may have left more claims than one transaction can remove.
func TestReclaimOfMany(t *testing.T) {
	t.Parallel()
	s := servertest.Consul(t, nil)
	d, other := open(t, "consul://"+s.Addr), open(t, "consul://"+s.Addr)
	for _, try := range []bool{false, true} {
		name := fmt.Sprint("try ", try)
		for range maxReclaim*2 + 1 {
			earlier := shared(name)
			earlier.Owner = "job"
			enter(t, other, earlier)
		}
		run := claimOn(name)
		run.Owner, run.Reclaim, run.Try = "job", true, try
		if p := enter(t, d, run); !p.Holds {
			t.Errorf("enter with try %v = %+v; want a claim that holds", try, p)
		}
	}
}
