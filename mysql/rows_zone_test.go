package mysql

import (
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"

	"github.com/stilelock/stile/sqlrow"
)

// Between these the clocks of central Europe are an hour ahead.
const (
	spring = 1774746000 * time.Second // 01:00 in UTC of 29 March 2026
	autumn = 1792890000 * time.Second // 01:00 in UTC of 25 October 2026
)

// zone has the server know a time zone with summer time.
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

// at returns a pool whose sessions are in that zone, where it is that time.
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

// A lease in tb_distributed_lock lasts for its time, whatever the clocks on the wall do meanwhile.
func TestMethodLockThroughSummerTime(t *testing.T) {
	t.Parallel()
	zone(t)
	for _, tt := range []struct {
		name        string
		now         time.Duration
		after, life time.Duration
		holds       bool
	}{
		{"in spring it lasts", spring - 5*time.Second, 11 * time.Second, time.Minute, false},
		{"in spring it ends", spring - 5*time.Second, 61 * time.Second, time.Minute, true},
		{"in autumn it lasts", autumn - 5*time.Second, 11 * time.Second, time.Minute, false},
		{"in autumn it ends", autumn - 5*time.Second, 61 * time.Second, time.Minute, true},
		{"in the hour that comes twice", autumn + 10*time.Minute, 11 * time.Second, time.Minute, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			name := database(t, server)
			mustExec(t, raw(t, server, name), methodLockTable)
			open := func(now time.Duration) driver.Driver {
				db, o := at(t, name, now), &sqlrow.Options{Table: "locks"}
				d, err := sqlrow.New(timely(t), db, sqlrow.MySQL, sqlrow.MethodLock, o)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { d.Close() })
				return d
			}
			first, second := claim("nightly", "first"), claim("nightly", "second")
			first.TTL = tt.life
			if p, err := open(tt.now).Enter(timely(t), first); err != nil || !p.Holds {
				t.Fatalf("enter = %+v, %v; want a claim that holds", p, err)
			}
			if p, err := open(tt.now+tt.after).Enter(timely(t), second); err != nil || p.Holds != tt.holds {
				t.Errorf("%v later another enters with %+v, %v; want it to hold: %v", tt.after, p, err, tt.holds)
			}
		})
	}
}

// A column without a zone says nothing of when a row was written. Opening says what is to be done about it.
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

// ShedLock writes UTC into columns that MySQL reads in the zone of the server. In a zone with summer time an hour of each
// spring does not exist, so nothing can be locked then; columns without a zone have no such hour.
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
