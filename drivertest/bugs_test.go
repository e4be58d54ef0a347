package drivertest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/memory"
)

// A bug is a driver that breaks the contract, and the case that has to find that.
type bug struct {
	caught string
	bug    string
	driver *buggy
}

// A recorder takes the failures of a case that ought to fail.
type recorder struct {
	testing.TB
	mu       sync.Mutex // guards failures
	failures []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// TestBugsAreCaught shows that each case can fail: a driver with a known bug fails the case that is about it, and the
// failure cites the contract.
func TestBugsAreCaught(t *testing.T) {
	tests := slices.Concat(enterBugs(), leaseBugs, amendBugs, observeBugs, callBugs)
	for _, test := range tests {
		t.Run(test.caught+"/"+test.bug, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(Cases(), func(c Case) bool { return c.Name == test.caught })
			if i < 0 {
				t.Fatalf("there is no case %s", test.caught)
			}
			var r *recorder
			for range 3 { // on a busy machine a lease may end although the bug renews it
				store := memory.NewStore()
				s := Store{Slack: 200 * time.Millisecond, Lease: 100 * time.Millisecond,
					Open: func(testing.TB) driver.Driver {
						d := *test.driver
						d.Driver = store.Driver()
						return &d
					}}
				r = &recorder{TB: t}
				done := make(chan struct{})
				go func() {
					defer close(done)
					check(r, s, s.Open(t), s.Open(t), Cases()[i])
				}()
				if <-done; len(r.failures) > 0 {
					break
				}
			}
			if len(r.failures) == 0 {
				t.Fatal("the case passes")
			}
			if !strings.Contains(r.failures[0], "the contract: "+Cases()[i].Sentence) {
				t.Errorf("the failure does not cite the contract: %s", r.failures[0])
			}
		})
	}
}
