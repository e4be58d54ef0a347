package mysql

import (
	"testing"

	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
)

func TestContractServed(t *testing.T) {
	t.Parallel()
	drive.ContractServed(t, func(t *testing.T) drivertest.Store {
		return drivertest.Store{Open: opener("mysql://root@" + server.Addr + "/" + database(t, server)), Fresh: fresher(t)}
	}, nil, 0, 1, 2, 3)
}

func TestSimpleServed(t *testing.T) {
	t.Parallel()
	drive.SimpleServed(t, 2, drivertest.Store{Open: opener("mysql://root@" + server.Addr + "/" + database(t, server))})
}
