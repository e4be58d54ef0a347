package redis_test

import (
	"testing"

	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
)

func TestContractServed(t *testing.T) {
	t.Parallel()
	drive.ContractServed(t, func(t *testing.T) drivertest.Store { return store(t, "") }, nil, 2, 1, 2, 3)
}

func TestSimpleServed(t *testing.T) {
	t.Parallel()
	drive.SimpleServed(t, 2, store(t, ""))
}
