package mysql

import (
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/store/sqlrow"
)

// Summer time in central Europe in 2026, in Unix time.
const (
	spring = 1774746000 * time.Second // 01:00 in UTC of 29 March 2026
	autumn = 1792890000 * time.Second // 01:00 in UTC of 25 October 2026
)

// zone loads a time zone with summer time into the server.
func zone(t testing.TB) {
	t.Helper()
	mustExec(t, raw(t, server, "mysql"), fmt.Sprintf(`
		REPLACE INTO time_zone (Time_zone_id, Use_leap_seconds) VALUES (777, 'N');
		REPLACE INTO time_zone_name (Name, Time_zone_id) VALUES ('Summer', 777);
		REPLACE INTO time_zone_transition (Time_zone_id, Transition_time, Transition_type_id)
		VALUES (777, 0, 0), (777, %d, 1), (777, %d, 0);
		REPLACE INTO time_zone_transition_type VALUES (777, 0, 3600, 0, 'CET'), (777, 1, 7200, 1, 'CEST')`,
		spring/time.Second, autumn/time.Second))
}

// at returns a pool whose sessions are in that zone, at the given time.
func at(t testing.TB, database string, now time.Duration) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", fmt.Sprintf("root@tcp(%s)/%s?time_zone=%s&timestamp=%d",
		server.Addr, database, url.QueryEscape("'Summer'"), now/time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// jumps are the changes to and from summer time, for clients of a layout, each with a table of its own.
func jumps(layout sqlrow.Layout, create string) map[string]func(testing.TB) *drivertest.Jump {
	all := map[string]func(testing.TB) *drivertest.Jump{}
	for what, now := range map[string]time.Duration{
		"summer time begins":  spring - 5*time.Second,
		"summer time ends":    autumn - 5*time.Second,
		"an hour comes again": autumn + 10*time.Minute,
	} {
		all[what] = func(t testing.TB) *drivertest.Jump {
			zone(t)
			name := database(t, server)
			mustExec(t, raw(t, server, name), create)
			open := func(later time.Duration) driver.Driver {
				d, err := sqlrow.New(timely(t), at(t, name, now+later), sqlrow.MySQL, layout, &sqlrow.Options{Table: "locks"})
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			return &drivertest.Jump{Before: open(0), Within: open(11 * time.Second), Past: open(61 * time.Second)}
		}
	}
	return all
}

// A column without a zone does not say when a row was written. The error of opening says what to change.
func TestMethodLockWithoutZone(t *testing.T) {
	t.Parallel()
	without := strings.Replace(methodLockTable, "timestamp NOT NULL", "datetime NOT NULL", 1)
	url, db := rowsURL(t, "tb_distributed_lock", without)
	const change = "ALTER TABLE locks MODIFY dl_operate_time TIMESTAMP NOT NULL " +
		"DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"
	d, err := driver.Open(timely(t), url)
	if d != nil || driver.OutcomeOf(err) != driver.OutcomeRefused || !strings.Contains(err.Error(), change) {
		t.Fatalf("open = %v, %v; want a refusal that says %q", d, err, change)
	}
	mustExec(t, db, change)
	rowsOpener(url)(t).Close()
}

// ShedLock writes UTC into columns that MySQL reads in the server's zone. In a zone with summer time, one hour of each
// spring does not exist, so no lock can be taken then. Columns without a zone have no such hour.
func TestShedLockInSpring(t *testing.T) {
	t.Parallel()
	zone(t)
	tests := []struct {
		name, change string
		holds        bool
	}{
		{"timestamp", "DO 1", false},
		{
			"datetime",
			"ALTER TABLE locks MODIFY lock_until DATETIME(3) NOT NULL, MODIFY locked_at DATETIME(3) NOT NULL", true,
		},
	}
	for _, test := range tests {
		name := database(t, server)
		mustExec(t, raw(t, server, name), shedLockTable)
		mustExec(t, raw(t, server, name), test.change)
		db, o := at(t, name, spring+90*time.Minute), &sqlrow.Options{Table: "locks"}
		d, err := sqlrow.New(timely(t), db, sqlrow.MySQL, sqlrow.ShedLock, o)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		p, err := d.Enter(timely(t), claim("nightly", test.name))
		if p.Holds != test.holds || (err == nil) != test.holds {
			t.Errorf("columns of %s: enter = %+v, %v; want it to hold: %v", test.name, p, err, test.holds)
		}
	}
}
