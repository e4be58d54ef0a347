package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/drivertest"
	"github.com/stilelock/stile/sqlrow"
)

// The tables as their own documentation has them, but for the length of names.
const (
	shedLockTable   = "CREATE TABLE %s (name varchar(1024) PRIMARY KEY, lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL)"
	methodLockTable = "CREATE TABLE %s (dl_id serial PRIMARY KEY, dl_method_name varchar(1024) UNIQUE NOT NULL, dl_device_info varchar(100) NOT NULL, dl_operate_time timestamp NOT NULL DEFAULT now())"
)

// table makes a table of another library's in a schema of its own.
func table(t testing.TB, db *sql.DB, create string) string {
	t.Helper()
	name := schema()
	for _, statement := range []string{"CREATE SCHEMA " + name, fmt.Sprintf(create, name+".locks")} {
		if _, err := db.ExecContext(timely(t), statement); err != nil {
			t.Fatal(err)
		}
	}
	return name + ".locks"
}

func pool(t testing.TB) *sql.DB {
	t.Helper()
	config := open(t, fresh(server)).pool.Config().ConnConfig.Copy()
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(8)
	t.Cleanup(func() { db.Close() })
	return db
}

func rowOpener(db *sql.DB, layout sqlrow.Layout, table string) func(testing.TB) driver.Driver {
	return func(t testing.TB) driver.Driver {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		d, err := sqlrow.New(ctx, db, sqlrow.PostgreSQL, layout, &sqlrow.Options{Table: table})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

func TestContractOfShedLock(t *testing.T) {
	t.Parallel()
	db := pool(t)
	drivertest.Run(t, drivertest.Store{Open: rowOpener(db, sqlrow.ShedLock, table(t, db, shedLockTable))})
}

func TestContractOfMethodLock(t *testing.T) {
	t.Parallel()
	db := pool(t)
	drivertest.Run(t, drivertest.Store{Open: rowOpener(db, sqlrow.MethodLock, table(t, db, methodLockTable))})
}
