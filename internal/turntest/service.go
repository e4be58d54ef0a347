//go:build unix

package turntest

import (
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/store/memory"
)

// Service starts a lock service over a store in memory, and returns its URL. It ends with the test.
func Service(t *testing.T) (url string) {
	t.Helper()
	return "stile://" + drive.Service(t, 1, func(testing.TB) driver.Driver { return memory.New() })
}
