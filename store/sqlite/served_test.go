//go:build unix

package sqlite

import (
	"testing"

	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
)

func TestContractServed(t *testing.T) {
	drive.ContractServed(t, func(t *testing.T) drivertest.Store { return conforming(t) }, nil, 1, 1, 2, 3)
}

func TestSimpleServed(t *testing.T) {
	drive.SimpleServed(t, 2, conforming(t))
}
