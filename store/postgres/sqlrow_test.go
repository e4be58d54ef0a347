package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/store/sqlrow"
)

// The tables of the libraries' own documentation, with longer names.
const (
	shedLockTable = "CREATE TABLE %s (name varchar(1024) PRIMARY KEY, lock_until timestamp NOT NULL, " +
		"locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL)"
	methodLockTable = "CREATE TABLE %s (dl_id serial PRIMARY KEY, dl_method_name varchar(1024) UNIQUE NOT NULL, " +
		"dl_device_info varchar(100) NOT NULL, dl_operate_time timestamptz NOT NULL DEFAULT now())"
)

// table makes a table of another library in a schema of its own.
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
	config := open(t, fresh(server)).link.Pool().Config().ConnConfig.Copy()
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(8)
	t.Cleanup(func() { db.Close() })
	return db
}

func rowOpener(db *sql.DB, layout sqlrow.Layout, table string) func(testing.TB) driver.Driver {
	return func(t testing.TB) driver.Driver {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
	locks := table(t, db, shedLockTable)
	drivertest.Run(t, drivertest.Store{
		Open:  rowOpener(db, sqlrow.ShedLock, locks),
		Jumps: jumps(sqlrow.ShedLock, locks),
		Foreign: map[string]func(testing.TB, string) *drivertest.Foreign{"ShedLock": func(t testing.TB, name string) *drivertest.Foreign {
			held := false
			java := func(statement string) bool { return affects(t, db, fmt.Sprintf(statement, locks), name) == 1 }
			return &drivertest.Foreign{
				Holds: func() bool { held = held || java(shedLockTake); return held },
				Leave: func() { java(shedLockFree) },
			}
		}},
	})
}

func TestContractOfMethodLock(t *testing.T) {
	t.Parallel()
	db := pool(t)
	locks := table(t, db, methodLockTable)
	drivertest.Run(t, drivertest.Store{Open: rowOpener(db, sqlrow.MethodLock, locks), Jumps: jumps(sqlrow.MethodLock, locks)})
}

// affects runs a statement as another library does, and returns the number of changed rows.
func affects(t testing.TB, db *sql.DB, statement string, args ...any) int64 {
	t.Helper()
	r, err := db.ExecContext(timely(t), statement, args...)
	if err != nil {
		t.Fatal(err)
	}
	n, err := r.RowsAffected()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ShedLock's PostgreSQL statements with usingDbTime.
const (
	shedLockTake = `INSERT INTO %[1]s (name, lock_until, locked_at, locked_by)
		VALUES ($1, timezone('utc', CURRENT_TIMESTAMP) + interval '60 s', timezone('utc', CURRENT_TIMESTAMP), 'java')
		ON CONFLICT (name) DO UPDATE SET lock_until = timezone('utc', CURRENT_TIMESTAMP) + interval '60 s',
		locked_at = timezone('utc', CURRENT_TIMESTAMP), locked_by = 'java'
		WHERE %[1]s.name = $1 AND %[1]s.lock_until <= timezone('utc', CURRENT_TIMESTAMP)`
	shedLockFree = `UPDATE %s SET lock_until = timezone('utc', CURRENT_TIMESTAMP) WHERE name = $1 AND locked_by = 'java'`
)

func TestShedLockExcludesJava(t *testing.T) {
	t.Parallel()
	db := pool(t)
	locks := table(t, db, shedLockTable)
	d := rowOpener(db, sqlrow.ShedLock, locks)(t)
	defer d.Close()
	java := func(statement string) int64 { return affects(t, db, fmt.Sprintf(statement, locks), "nightly") }

	ours := claim("nightly", "ours")
	if p, err := d.Enter(timely(t), ours); err != nil || !p.Holds {
		t.Fatalf("enter = %+v, %v; want a claim that holds", p, err)
	}
	if java(shedLockTake) != 0 {
		t.Error("ShedLock takes the lock while stile holds it")
	}
	if java(shedLockFree) != 0 {
		t.Error("ShedLock frees stile's lock")
	}
	if err := d.Leave(timely(t), &driver.Release{Claim: ours}); err != nil {
		t.Fatal(err)
	}
	if java(shedLockTake) != 1 {
		t.Fatal("ShedLock does not take the lock after stile's release")
	}
	waiter := claim("nightly", "waiter")
	p, err := d.Enter(timely(t), waiter)
	if err != nil || p.Holds || p.Blocker.Record != "java" || p.Retry <= 50*time.Second {
		t.Errorf("enter = %+v, %v; want it behind java, with a minute left", p, err)
	}
	if err := d.Leave(timely(t), &driver.Release{Claim: ours}); !errors.Is(err, driver.ErrGone) {
		t.Errorf("a second release = %v; want ErrGone, and java's lock left alone", err)
	}
	if java(shedLockTake) != 0 {
		t.Error("java's own lock is free")
	}
	java(shedLockFree)
	if _, err := d.Await(timely(t), waiter); err != nil {
		t.Fatal(err)
	}
	if p, err := d.Enter(timely(t), waiter); err != nil || !p.Holds {
		t.Errorf("enter after java's release = %+v, %v; want a claim that holds", p, err)
	}
}

// The holes of tb_distributed_lock as articles describe it: a release by name deletes a successor's row, and if two clients
// find a stale row, the second deletes the first one's new row.
func TestMethodLockHoles(t *testing.T) {
	t.Parallel()
	db := pool(t)
	locks := table(t, db, methodLockTable)
	d := rowOpener(db, sqlrow.MethodLock, locks)(t)
	defer d.Close()

	late, next := claim("pay", "late"), claim("pay", "next")
	if p, err := d.Enter(timely(t), late); err != nil || !p.Holds {
		t.Fatalf("enter = %+v, %v; want a claim that holds", p, err)
	}
	affects(t, db, "UPDATE "+locks+" SET dl_operate_time = dl_operate_time - interval '6 minutes'")
	if p, err := d.Enter(timely(t), next); err != nil || !p.Holds {
		t.Fatalf("enter after the first was left behind = %+v, %v; want a claim that holds", p, err)
	}
	if err := d.Leave(timely(t), &driver.Release{Claim: late}); !errors.Is(err, driver.ErrGone) {
		t.Errorf("a late release = %v; want ErrGone", err)
	}
	if err := d.Renew(timely(t), []*driver.Claim{late})[0].Err; !errors.Is(err, driver.ErrGone) {
		t.Errorf("a late renewal = %v; want ErrGone", err)
	}
	if err := d.Renew(timely(t), []*driver.Claim{next})[0].Err; err != nil {
		t.Errorf("the successor's renewal = %v; want nil", err)
	}

	affects(t, db, "UPDATE "+locks+" SET dl_device_info = 'host-7', dl_operate_time = now() - interval '290 seconds'")
	foreign := claim("pay", "foreign")
	if p, err := d.Enter(timely(t), foreign); err != nil || p.Holds || p.Blocker.Record != "host-7" {
		t.Errorf("enter behind another's row of 4:50 = %+v, %v; want it to wait: five minutes are not over", p, err)
	}

	// Many clients find the same stale row; one takes it over.
	affects(t, db, "UPDATE "+locks+" SET dl_operate_time = now() - interval '6 minutes'")
	var holders atomic.Int64
	var done sync.WaitGroup
	for i := range 32 {
		done.Go(func() {
			if p, err := d.Enter(timely(t), claim("pay", fmt.Sprint("racer-", i))); err != nil {
				t.Errorf("racer %d: %v", i, err)
			} else if p.Holds {
				holders.Add(1)
			}
		})
	}
	done.Wait()
	if n := holders.Load(); n != 1 {
		t.Errorf("%d of 32 took a stale row over; want 1", n)
	}
}

func TestRowsByAddress(t *testing.T) {
	t.Parallel()
	db := pool(t)
	base := "postgres://postgres@" + server.Addr + "/postgres?layout="
	for layout, create := range map[string]string{"shedlock": shedLockTable, "tb_distributed_lock": methodLockTable} {
		d, err := driver.Open(timely(t), base+layout+"&table="+table(t, db, create))
		if err != nil {
			t.Fatal(err)
		}
		c := claim("by address", "x")
		if p, err := d.Enter(timely(t), c); err != nil || !p.Holds || d.Traits().Store != layout {
			t.Errorf("%s: enter = %+v, %v on %s; want a claim that holds", layout, p, err, d.Traits().Store)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := d.Leave(timely(t), &driver.Release{Claim: c}); !errors.Is(err, driver.ErrClosed) {
			t.Errorf("%s: leave after close = %v; want ErrClosed", layout, err)
		}
	}
	for word, says := range map[string]string{
		"other":                  `"other" is neither`,
		"shedlock&table=nowhere": "it is not there",
		"shedlock&x=y":           "unknown parameter",
		"shedlock&table=a;b":     "letters",
	} {
		d, err := driver.Open(timely(t), base+word)
		if !driver.NotApplied(err) || !strings.Contains(err.Error(), says) || d != nil {
			t.Errorf("%s: %v, %v; want an error that says %q", word, d, err, says)
		}
	}
	_, err := driver.Open(timely(t), "postgres://nobody:canary@127.0.0.1:1/postgres?layout=shedlock")
	if !driver.IsUnreachable(err) || strings.Contains(err.Error(), "canary") {
		t.Errorf("no server: %v; want it unreachable, without the password", err)
	}
}

func TestSQLRowRefuses(t *testing.T) {
	t.Parallel()
	db := pool(t)
	short := table(t, db, strings.Replace(shedLockTable, "1024", "8", 1))
	d := rowOpener(db, sqlrow.ShedLock, short)(t)
	defer d.Close()
	_, err := d.Enter(timely(t), claim("nine char", "x"))
	if !driver.NotApplied(err) || !strings.Contains(err.Error(), "room for 8") {
		t.Errorf("a name that is too long = %v; want it refused, with the room there is", err)
	}
	if p, err := d.Enter(timely(t), claim("éééééééé", "x")); err != nil || !p.Holds {
		t.Errorf("a name of 8 characters in 16 bytes = %+v, %v; want it to hold", p, err)
	}
	for name, o := range map[string]struct {
		layout sqlrow.Layout
		table  string
		says   string
	}{
		"missing table": {sqlrow.ShedLock, "no_such_table", "no_such_table"},
		"other table":   {sqlrow.MethodLock, short, "dl_method_name"},
		"injection":     {sqlrow.ShedLock, "a; DROP TABLE b", "letters, digits"},
		"no layout":     {0, "", "no layout"},
	} {
		d, err := sqlrow.New(timely(t), db, sqlrow.PostgreSQL, o.layout, &sqlrow.Options{Table: o.table})
		if err == nil || !strings.Contains(err.Error(), o.says) {
			t.Errorf("%s: %v; want an error that says %q", name, err, o.says)
		}
		if d != nil {
			t.Errorf("%s: a driver beside the error", name)
		}
	}
}
