package quorum_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/quorum"
)

// A node that could not be reached a moment ago is asked to let a claim go all the same, or the claim would stay there until
// its lease is over.
func TestLeaveAsksNodesThatRest(t *testing.T) {
	t.Parallel()
	list := servers(3)
	d, members := open(t, list, nil)
	c := claim("held", "holder")
	holds(t, d, c)
	refuse := func(err error) {
		list[0].mu.Lock()
		defer list[0].mu.Unlock()
		list[0].refuse = err
	}
	refuse(driver.Unsent(driver.Unreachable(errors.New("no connection"))))
	holds(t, d, claim("other", "x"))
	refuse(nil)
	leaves(t, d, c)
	for !quorum.Settled(d) {
		runtime.Gosched()
	}
	if free, err := members[0].Free(t.Context(), "held"); !free || err != nil {
		t.Errorf("the node that rested: free %v, %v; want the claim gone there too", free, err)
	}
}
