package mysql

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/drivertest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Store{Open: opener(fresh(t, server)), Lease: 600 * time.Millisecond})
}

// A pool of the caller that sends its statements one by one, on connections as the server makes them.
func TestContractOnePerTrip(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("mysql", "root@tcp("+server.Addr+")/"+database(t, server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	drivertest.Run(t, drivertest.Store{Lease: 600 * time.Millisecond, Open: func(t testing.TB) driver.Driver {
		d, err := New(timely(t), db, nil)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}})
}

func TestModel(t *testing.T) {
	t.Parallel()
	drivertest.Model(t, drivertest.Store{Open: opener(fresh(t, server))}, 1, 1500)
}
