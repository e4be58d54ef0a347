//go:build unix

package drive

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
)

// everyNumber is how make full runs the tests of ContractServed.
var everyNumber = flag.Bool("every-number", false,
	"run the contract over each number of replicas of the lock service that a store is tested with")

// ContractServed tests that the contract holds over the lock service, also if each request goes to another replica of it:
// with these numbers of replicas, of which the first few are tested always, and the others in make full. Lacks are the traits
// that the store lacks; see [Lacks].
func ContractServed(t *testing.T, store func(t *testing.T) drivertest.Store, lacks []driver.Trait, always int, replicas ...int) {
	if !*everyNumber {
		replicas = replicas[:always]
	}
	for _, n := range replicas {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			s := Served(t, n, store(t))
			Lacks(t, s.Open, slices.Clone(lacks)...)
			drivertest.Run(t, s)
		})
	}
}
