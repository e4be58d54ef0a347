//go:build unix

package sqlite

import (
	"testing"

	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
)

func TestContractServed(t *testing.T) {
	s := drive.Served(t, 1, conforming(t))
	drive.Lacks(t, s.Open)
	drivertest.Run(t, s)
}
