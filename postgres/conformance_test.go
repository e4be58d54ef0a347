package postgres

import (
	"testing"
	"time"

	"github.com/stilelock/stile/drivertest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Store{Open: opener(fresh(server)), Lease: 600 * time.Millisecond})
}

func TestModel(t *testing.T) {
	t.Parallel()
	drivertest.Model(t, drivertest.Store{Open: opener(fresh(server))}, 1, 2000)
}
