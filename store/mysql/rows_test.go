package mysql

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

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/store/sqlrow"
)

// The tables of the libraries' own documentation, with longer names, and with another collation in some tests.
const (
	shedLockTable = `CREATE TABLE locks (name varchar(700) COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
		lock_until timestamp(3) NOT NULL, locked_at timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
		locked_by varchar(255) NOT NULL)`
	methodLockTable = `CREATE TABLE locks (dl_id int NOT NULL AUTO_INCREMENT PRIMARY KEY,
		dl_method_name varchar(700) COLLATE utf8mb4_bin NOT NULL DEFAULT '', dl_device_info varchar(100) NOT NULL DEFAULT '',
		dl_operate_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
		UNIQUE KEY uq_name (dl_method_name))`
)

// rowsURL returns the URL of a table of another library, in a database of its own, and a pool on that database.
func rowsURL(t testing.TB, layout, create string) (string, *sql.DB) {
	t.Helper()
	name := database(t, server)
	db := raw(t, server, name)
	mustExec(t, db, create)
	return "mysql://root@" + server.Addr + "/" + name + "?table=locks&layout=" + layout, db
}

func rowsOpener(url string) func(testing.TB) driver.Driver {
	return func(t testing.TB) driver.Driver {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		d, err := driver.Open(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

func TestContractOfShedLock(t *testing.T) {
	t.Parallel()
	url, db := rowsURL(t, "shedlock", shedLockTable)
	drivertest.Run(t, drivertest.Store{
		Open:  rowsOpener(url),
		Jumps: jumps(sqlrow.ShedLock, strings.ReplaceAll(shedLockTable, "timestamp(3)", "datetime(3)")),
		Foreign: map[string]func(testing.TB, string) *drivertest.Foreign{"ShedLock": func(t testing.TB, name string) *drivertest.Foreign {
			held := false
			return &drivertest.Foreign{
				Holds: func() bool { held = held || shedLockTakes(t, db, name); return held },
				Leave: func() { shedLockFrees(t, db, name) },
			}
		}},
	})
}

func TestContractOfMethodLock(t *testing.T) {
	t.Parallel()
	url, _ := rowsURL(t, "tb_distributed_lock", methodLockTable)
	drivertest.Run(t, drivertest.Store{Open: rowsOpener(url), Jumps: jumps(sqlrow.MethodLock, methodLockTable)})
}

// affected runs a statement of another library, and returns the number of changed rows.
func affected(t testing.TB, db *sql.DB, statement string, args ...any) int64 {
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

// shedLockTakes and shedLockFrees run ShedLock's MySQL statements with usingDbTime.
func shedLockTakes(t testing.TB, db *sql.DB, name string) bool {
	t.Helper()
	return affected(t, db, `INSERT IGNORE INTO locks (name, lock_until, locked_at, locked_by)
		VALUES (?, TIMESTAMPADD(MICROSECOND, 60000000, UTC_TIMESTAMP(3)), UTC_TIMESTAMP(3), 'java')`, name)+
		affected(t, db, `UPDATE locks SET lock_until = TIMESTAMPADD(MICROSECOND, 60000000, UTC_TIMESTAMP(3)),
		locked_at = UTC_TIMESTAMP(3), locked_by = 'java' WHERE name = ? AND lock_until <= UTC_TIMESTAMP(3)`, name) > 0
}

func shedLockFrees(t testing.TB, db *sql.DB, name string) int64 {
	t.Helper()
	return affected(t, db, `UPDATE locks SET lock_until = UTC_TIMESTAMP(3) WHERE name = ? AND locked_by = 'java'`, name)
}

func TestShedLockExcludesJava(t *testing.T) {
	t.Parallel()
	url, db := rowsURL(t, "shedlock", shedLockTable)
	d := rowsOpener(url)(t)
	defer d.Close()
	take := func() bool { return shedLockTakes(t, db, "nightly") }
	free := func() int64 { return shedLockFrees(t, db, "nightly") }
	ours := claim("nightly", "ours")
	if p, err := d.Enter(timely(t), ours); err != nil || !p.Holds {
		t.Fatalf("enter = %+v, %v; want a claim that holds", p, err)
	}
	if take() || free() != 0 {
		t.Error("ShedLock takes or frees the lock while stile holds it")
	}
	if err := d.Leave(timely(t), &driver.Release{Claim: ours}); err != nil {
		t.Fatal(err)
	}
	if !take() {
		t.Fatal("ShedLock does not take the lock after stile's release")
	}
	waiter := claim("nightly", "waiter")
	if p, err := d.Enter(timely(t), waiter); err != nil || p.Holds || p.Blocker.Record != "java" {
		t.Errorf("enter = %+v, %v; want it behind java", p, err)
	}
	free()
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
	url, db := rowsURL(t, "tb_distributed_lock", methodLockTable)
	d := rowsOpener(url)(t)
	defer d.Close()
	late, next := claim("pay", "late"), claim("pay", "next")
	if p, err := d.Enter(timely(t), late); err != nil || !p.Holds {
		t.Fatalf("enter = %+v, %v; want a claim that holds", p, err)
	}
	affected(t, db, "UPDATE locks SET dl_operate_time = dl_operate_time - INTERVAL 6 MINUTE")
	if p, err := d.Enter(timely(t), next); err != nil || !p.Holds {
		t.Fatalf("enter after the first was left behind = %+v, %v; want a claim that holds", p, err)
	}
	if err := d.Leave(timely(t), &driver.Release{Claim: late}); !errors.Is(err, driver.ErrGone) {
		t.Errorf("a late release = %v; want ErrGone", err)
	}
	if err := d.Renew(timely(t), []*driver.Claim{next})[0].Err; err != nil {
		t.Errorf("the successor's renewal = %v; want nil", err)
	}

	affected(t, db, "UPDATE locks SET dl_device_info = 'host-7', dl_operate_time = NOW() - INTERVAL 6 MINUTE")
	var holders atomic.Int64
	var done sync.WaitGroup
	for i := range 32 {
		done.Go(func() {
			c := claim("pay", fmt.Sprint("racer-", i))
			p, err := d.Enter(timely(t), c)
			for driver.IsUnreachable(err) && driver.NotApplied(err) { // a deadlock, after which nothing is left
				p, err = d.Enter(timely(t), c)
			}
			if err != nil {
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

func TestRowsRefuse(t *testing.T) {
	t.Parallel()
	loose := strings.Replace(shedLockTable, "varchar(700) COLLATE utf8mb4_bin", "varchar(64) COLLATE utf8mb4_general_ci", 1)
	url, db := rowsURL(t, "shedlock", loose)
	affected(t, db, "SET GLOBAL sql_mode = DEFAULT")
	d := rowsOpener(url)(t)
	defer d.Close()
	if p, err := d.Enter(timely(t), claim("m", "x")); err != nil || !p.Holds {
		t.Fatalf("enter = %+v, %v; want a claim that holds", p, err)
	}
	p, err := d.Enter(timely(t), claim("M ", "y"))
	if !errors.Is(err, driver.ErrForeign) || !strings.Contains(err.Error(), `"m"`) {
		t.Errorf("a name that the collation takes for another = %+v, %v; want ErrForeign", p, err)
	}
	_, err = d.Enter(timely(t), claim(strings.Repeat("n", 65), "z"))
	if !driver.NotApplied(err) || !strings.Contains(err.Error(), "room for 64") {
		t.Errorf("a name that is too long = %v; want it refused, with the room there is", err)
	}
	base, _, _ := strings.Cut(url, "?")
	for word, says := range map[string]string{
		"layout=other":                           `"other" is neither`,
		"layout=shedlock&table=nowhere":          "it is not there",
		"layout=tb_distributed_lock&table=locks": "dl_method_name",
	} {
		d, err := driver.Open(timely(t), base+"?"+word)
		if !driver.NotApplied(err) || !strings.Contains(err.Error(), says) || d != nil {
			t.Errorf("%s: %v, %v; want an error that says %q", word, d, err, says)
		}
	}
}
