package mysql

import (
	"database/sql"
	"net/url"
	"testing"

	"github.com/stilelock/stile/sqlrow"
)

// ShedLock writes UTC into columns that MySQL reads in the zone of the server. In a zone with summer time an hour of each
// spring does not exist, so nothing can be locked then; columns without a zone have no such hour.
func TestShedLockInSpring(t *testing.T) {
	t.Parallel()
	const (
		spring = "1774746000" // 01:00 in UTC of 29 March 2026, from when the clocks of central Europe are an hour ahead
		later  = "1774751400" // 02:30 in UTC
	)
	mustExec(t, raw(t, server, "mysql"), `REPLACE INTO time_zone (Time_zone_id, Use_leap_seconds) VALUES (777, 'N');
		REPLACE INTO time_zone_name (Name, Time_zone_id) VALUES ('Spring', 777);
		REPLACE INTO time_zone_transition (Time_zone_id, Transition_time, Transition_type_id) VALUES (777, 0, 0), (777, `+spring+`, 1);
		REPLACE INTO time_zone_transition_type VALUES (777, 0, 3600, 0, 'CET'), (777, 1, 7200, 1, 'CEST')`)
	tests := []struct {
		name, change string
		holds        bool
	}{
		{"timestamp", "DO 1", false},
		{"datetime", "ALTER TABLE locks MODIFY lock_until DATETIME(3) NOT NULL, MODIFY locked_at DATETIME(3) NOT NULL", true},
	}
	for _, test := range tests {
		name := database(t, server)
		mustExec(t, raw(t, server, name), shedLockTable)
		mustExec(t, raw(t, server, name), test.change)
		session := "?time_zone=" + url.QueryEscape("'Spring'") + "&timestamp=" + later
		db, err := sql.Open("mysql", "root@tcp("+server.Addr+")/"+name+session)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		d, err := sqlrow.New(timely(t), db, sqlrow.MySQL, sqlrow.ShedLock, &sqlrow.Options{Table: "locks"})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if p, err := d.Enter(timely(t), claim("nightly", test.name)); p.Holds != test.holds || (err == nil) != test.holds {
			t.Errorf("columns of %s: enter = %+v, %v; want it to hold: %v", test.name, p, err, test.holds)
		}
	}
}
