package consul_test

import (
	"testing"

	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
)

func TestContractServed(t *testing.T) {
	t.Parallel()
	drive.ContractServed(t, func(t *testing.T) drivertest.Store { return store(t) }, nil, 0, 1)
}

func TestSimpleServed(t *testing.T) {
	t.Parallel()
	drive.SimpleServed(t, 1, store(t))
}
