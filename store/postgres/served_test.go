package postgres

import (
	"testing"
	"time"

	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
)

func TestContractServed(t *testing.T) {
	t.Parallel()
	drive.ContractServed(t, func(*testing.T) drivertest.Store {
		url := "postgres://postgres@" + server.Addr + "/postgres?schema=" + schema()
		return drivertest.Store{Open: opener(url), Fresh: fresher(server), Lease: 600 * time.Millisecond}
	}, nil, 0, 1, 2, 3)
}

func TestSimpleServed(t *testing.T) {
	t.Parallel()
	drive.SimpleServed(t, 2, drivertest.Store{Open: opener(fresh(server))})
}
