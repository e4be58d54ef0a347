package drivertest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// A bug is a driver that breaks the contract, and the case that must find the bug.
type bug struct {
	caught string
	bug    string
	driver *buggy
}

// TestBugsAreCaught shows that each case can fail: a driver with a known bug fails the case for that bug, and the failure
// cites the contract.
func TestBugsAreCaught(t *testing.T) {
	tests := slices.Concat(enterBugs(), leaseBugs, amendBugs, observeBugs, callBugs)
	for _, test := range tests {
		t.Run(test.caught+"/"+test.bug, func(t *testing.T) {
			t.Parallel()
			var failures []string
			for range 30 { // on a busy machine a lease may end although the bug renews it
				store := memory.NewStore()
				s := Store{Slack: 200 * time.Millisecond, Lease: 100 * time.Millisecond,
					Open: func(testing.TB) driver.Driver {
						d := *test.driver
						d.Driver = store.Driver()
						return &d
					}}
				if failures = found(t, test.caught, s); len(failures) > 0 {
					break
				}
			}
			if len(failures) == 0 {
				t.Fatal("the case passes")
			}
			if cites := "the contract: " + caseOf(t, test.caught).Sentence; !strings.Contains(failures[0], cites) {
				t.Errorf("the failure does not cite the contract: %s", failures[0])
			}
		})
	}
}
