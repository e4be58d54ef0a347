package redis_test

import (
	"fmt"
	"testing"

	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
)

// The contract holds over the lock service, also if each request goes to another replica of it.
func TestContractServed(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 2} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			t.Parallel()
			s := drive.Served(t, replicas, store(t, ""))
			drive.Lacks(t, s.Open)
			drivertest.Run(t, s)
		})
	}
}
