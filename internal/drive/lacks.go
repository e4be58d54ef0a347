package drive

import (
	"slices"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
)

// Lacks tests that a driver lacks exactly these of the traits that cases of the contract need: the table of faults
// counts a case only for stores on which it is not skipped, and reads from the test of each store's contract which
// traits the store lacks.
func Lacks(t *testing.T, open func(t testing.TB) driver.Driver, want ...driver.Trait) {
	t.Helper()
	d := open(t)
	defer d.Close()
	got := d.Traits().Lacks(drivertest.Powers()...)
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("the driver lacks %q; want what is declared, %q", got, want)
	}
}
