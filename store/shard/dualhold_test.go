package shard

import (
	"fmt"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// Entries of claims that nobody released are forgotten, and other entries stay.
func TestDualHoldsAreClearedAway(t *testing.T) {
	k := dualHolds{of: map[string]*dualHold{}}
	lasting := &driver.Claim{ID: "lasting", TTL: time.Hour}
	k.note(lasting, dualHold{entered: true, ticket: 7})
	for i := range 10 * fewDualHolds {
		k.note(&driver.Claim{ID: fmt.Sprint(i), TTL: -time.Second}, dualHold{}) // over at once
		if n := len(k.of); n > 2*fewDualHolds {
			t.Fatalf("%d claims are known after %d; want at most %d", n, i+1, 2*fewDualHolds)
		}
	}
	if x := k.find(lasting); x == nil || !x.entered || x.ticket != 7 {
		t.Errorf("what is known of a claim that lasts = %+v; want it as it was noted", x)
	}
	k.forget(lasting)
	if x := k.find(lasting); x != nil {
		t.Errorf("what is known of a claim that left = %+v; want nothing", x)
	}
}
