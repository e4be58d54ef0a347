package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/sqlrow"
)

// Rows of other libraries are listed unchanged and can be removed by hand, like stile's own.
func TestRowsShownAndBroken(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		layout         sqlrow.Layout
		create, insert string
		left           time.Duration // lease left of the inserted row
	}{
		{
			"shedlock", sqlrow.ShedLock, shedLockTable,
			"INSERT INTO %s SELECT $1, utc + interval '1 minute', utc - interval '1 minute', 'host-7' " +
				"FROM timezone('utc', now()) utc",
			time.Minute,
		},
		{
			"tb_distributed_lock", sqlrow.MethodLock, methodLockTable,
			"INSERT INTO %s (dl_method_name, dl_device_info, dl_operate_time) " +
				"VALUES ($1, 'host-7', now() - interval '1 minute')",
			4 * time.Minute,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := pool(t)
			locks := table(t, db, test.create)
			affects(t, db, fmt.Sprintf(test.insert, locks), "job b")
			d := rowOpener(db, test.layout, locks)(t)
			defer d.Close()
			lister, breaker := d.(driver.Lister), d.(driver.Breaker)
			ours := claim("job a", "ours")
			ours.Record = "plain"
			p, err := d.Enter(timely(t), ours)
			if err != nil || !p.Holds {
				t.Fatalf("enter = %+v, %v; want a claim that holds", p, err)
			}

			list, err := lister.List(timely(t), &driver.Query{Prefix: "job"})
			if err != nil || len(list) != 2 || list[0].Name != "job a" || list[1].Name != "job b" {
				t.Fatalf("list = %+v, %v; want job a and job b", list, err)
			}
			if s := list[0].Claims[0]; s.Ticket != p.Ticket || s.Record != "plain" || s.Since > 10*time.Second {
				t.Errorf("stile's lock is shown as %+v; want ticket %d and its record", s, p.Ticket)
			}
			s := list[1].Claims[0]
			remains := s.Remaining <= test.left && s.Remaining >= test.left-10*time.Second
			if s.Record != "host-7" || !s.Holds || !remains || s.Since < time.Minute {
				t.Errorf("the other's lock is shown as %+v; want host-7's, a minute old, with %v left", s, test.left)
			}

			_, err = breaker.Break(timely(t), &driver.BreakRequest{Name: "job b", Ticket: s.Ticket + 1})
			if !errors.Is(err, driver.ErrGone) {
				t.Errorf("break of another ticket = %v; want ErrGone", err)
			}
			for _, name := range []string{"job b", "job a"} {
				broken, err := breaker.Break(timely(t), &driver.BreakRequest{Name: name})
				if err != nil || !broken.Holds {
					t.Errorf("break of %s = %+v, %v; want the claim as it held", name, broken, err)
				}
				if list, err := lister.List(timely(t), &driver.Query{Name: name}); err != nil || len(list) != 0 {
					t.Errorf("list of %s after the break = %+v, %v; want nothing", name, list, err)
				}
			}
			if err := d.Renew(timely(t), []*driver.Claim{ours})[0].Err; !errors.Is(err, driver.ErrGone) {
				t.Errorf("renewal after the break = %v; want ErrGone", err)
			}
			if p, err := d.Enter(timely(t), claim("job b", "next")); err != nil || !p.Holds {
				t.Errorf("enter after the break = %+v, %v; want a claim that holds", p, err)
			}
		})
	}
}

// The rights in docs/stores/shedlock.md are enough. Without them, the error names the missing right.
func TestRowsRights(t *testing.T) {
	t.Parallel()
	db := pool(t)
	tests := []struct{ layout, create, rights string }{
		{"shedlock", shedLockTable, "SELECT, INSERT, UPDATE"},
		{"tb_distributed_lock", methodLockTable, "SELECT, INSERT, UPDATE, DELETE"},
	}
	for _, test := range tests {
		locks := table(t, db, test.create)
		schema, _, _ := strings.Cut(locks, ".")
		user := "u_" + schema
		for _, statement := range []string{
			"CREATE ROLE " + user + " LOGIN PASSWORD 'right'",
			"GRANT USAGE ON SCHEMA " + schema + " TO " + user,
			"GRANT USAGE ON ALL SEQUENCES IN SCHEMA " + schema + " TO " + user,
		} {
			affects(t, db, statement)
		}
		url := "postgres://" + user + ":right@" + server.Addr + "/postgres?layout=" + test.layout + "&table=" + locks
		_, err := driver.Open(timely(t), url)
		want := fmt.Sprintf("user %q lacks a right", user)
		if !driver.NotApplied(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: open without rights = %v; want an error that says so", test.layout, err)
		}
		affects(t, db, "GRANT "+test.rights+" ON "+locks+" TO "+user)
		d, err := driver.Open(timely(t), url)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		c := claim("rights", "x")
		if p, err := d.Enter(timely(t), c); err != nil || !p.Holds {
			t.Errorf("%s: enter = %+v, %v; want a claim that holds", test.layout, p, err)
		}
		if err := d.Renew(timely(t), []*driver.Claim{c})[0].Err; err != nil {
			t.Errorf("%s: renew = %v; want nil", test.layout, err)
		}
		if list, err := d.(driver.Lister).List(timely(t), &driver.Query{}); err != nil || len(list) != 1 {
			t.Errorf("%s: list = %+v, %v; want one name", test.layout, list, err)
		}
		if err := d.Leave(timely(t), &driver.Release{Claim: c}); err != nil {
			t.Errorf("%s: leave = %v; want nil", test.layout, err)
		}
	}
}
