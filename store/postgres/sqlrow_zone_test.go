package postgres

import (
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/store/sqlrow"
)

// zoned returns a pool whose sessions are in a time zone, as a role or a program in Java can set it.
func zoned(t testing.TB, zone string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", "postgres://postgres@"+server.Addr+"/postgres?timezone="+url.QueryEscape(zone))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// Of two clients whose sessions are in different time zones, one holds. A table whose columns do not allow this is refused,
// and the error says what to change. After that change it works.
func TestRowsInTwoZones(t *testing.T) {
	t.Parallel()
	db := pool(t)
	for _, tt := range []struct {
		name   string
		layout sqlrow.Layout
		create string // the unusable table
		change string
	}{
		{
			"shedlock", sqlrow.ShedLock, strings.ReplaceAll(shedLockTable, "timestamp", "timestamptz"),
			"ALTER TABLE %s ALTER lock_until TYPE timestamp, ALTER locked_at TYPE timestamp",
		},
		{
			"tb_distributed_lock", sqlrow.MethodLock, strings.ReplaceAll(methodLockTable, "timestamptz", "timestamp"),
			"ALTER TABLE %s ALTER dl_operate_time TYPE timestamptz",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			locks := table(t, db, tt.create)
			change := fmt.Sprintf(tt.change, locks)
			open := func(zone string) (driver.Driver, error) {
				d, err := sqlrow.New(timely(t), zoned(t, zone), sqlrow.PostgreSQL, tt.layout, &sqlrow.Options{Table: locks})
				if err == nil {
					t.Cleanup(func() { d.Close() })
				}
				return d, err
			}
			check := func(name, zone, other string) {
				t.Helper()
				first, err := open(zone)
				if err != nil {
					t.Fatal(err)
				}
				second, err := open(other)
				if err != nil {
					t.Fatal(err)
				}
				a, b := claim(name, "a"), claim(name, "b")
				if p, err := first.Enter(timely(t), a); err != nil || !p.Holds {
					t.Fatalf("enter = %+v, %v; want a claim that holds", p, err)
				}
				if p, err := second.Enter(timely(t), b); err != nil || p.Holds {
					t.Errorf("another in another zone enters with %+v, %v; want it to wait", p, err)
				}
				if err := first.Renew(timely(t), []*driver.Claim{a})[0].Err; err != nil {
					t.Errorf("the renewal of the first = %v; want nil", err)
				}
			}
			both := func() {
				check("name", "America/New_York", "Asia/Tokyo")
				check("another", "Asia/Tokyo", "America/New_York")
			}
			if _, err := open("UTC"); err == nil {
				t.Error("the table is not refused")
				both()
			} else if driver.OutcomeOf(err) != driver.OutcomeRefused || !strings.Contains(err.Error(), change) {
				t.Errorf("open = %v; want a refusal that says %q", err, change)
			}
			if _, err := db.ExecContext(timely(t), change); err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(timely(t), "DELETE FROM "+locks); err != nil {
				t.Fatal(err)
			}
			both()
		})
	}
}

// jumps are changes of the time zone for the next client's session.
func jumps(layout sqlrow.Layout, table string) map[string]func(testing.TB) *drivertest.Jump {
	between := func(zone, other string) func(testing.TB) *drivertest.Jump {
		return func(t testing.TB) *drivertest.Jump {
			return &drivertest.Jump{
				Before: rowOpener(zoned(t, zone), layout, table)(t), Within: rowOpener(zoned(t, other), layout, table)(t),
			}
		}
	}
	return map[string]func(testing.TB) *drivertest.Jump{
		"the clock is ahead": between("America/New_York", "Asia/Tokyo"), "the clock is behind": between("Asia/Tokyo", "America/New_York"),
	}
}
