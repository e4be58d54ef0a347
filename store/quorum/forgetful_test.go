package quorum_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
)

// A node that lost a claim that stands on the others no longer leads its waiters: they would be in the way when the holder
// gives the node its claim back.
func TestForgetfulLeadIsLeft(t *testing.T) {
	for lost := range 3 {
		synctest.Test(t, func(t *testing.T) {
			list := servers(3)
			a, _ := open(t, list, nil)
			b, _ := open(t, list, nil)
			defer a.Close()
			defer b.Close()
			holder, waiter := claim("held", "holder"), claim("held", "waiter")
			holds(t, a, holder)
			if r := a.Renew(t.Context(), []*driver.Claim{holder})[0]; r.Err != nil { // a majority is enough to hold; now all have it
				t.Fatal(r.Err)
			}
			pass(holder.TTL / 10)
			waits(t, b, waiter)
			synctest.Wait()
			leaves(t, list[lost].store.Driver(), holder)
			until := func(end time.Duration) {
				for begin := time.Now(); time.Since(begin) < end; pass(2 * time.Millisecond) {
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					_, err := b.Await(ctx, waiter)
					if cancel(); err == nil {
						waits(t, b, waiter)
					}
				}
			}
			until(time.Second)
			before := votes(list)[lost]
			until(time.Second)
			if n := votes(list)[lost] - before; n != 0 {
				t.Errorf("node %d, which lost the claim, was asked %d times in a second; want never", lost, n)
			}
			if r := a.Renew(t.Context(), []*driver.Claim{holder})[0]; r.Err != nil {
				t.Errorf("renewal = %v; want nil", r.Err)
			}
			pass(holder.TTL / 10)
			stands, err := list[lost].store.Driver().List(t.Context(), &driver.Query{Name: holder.Name})
			if err != nil || len(stands) != 1 || stands[0].Claims[0].Record != holder.Record {
				t.Errorf("on node %d stands %+v, %v after a renewal; want the holder's claim", lost, stands, err)
			}
		})
	}
}
