package mysql

import (
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// Rows of other libraries are listed unchanged and can be removed by hand, like stile's own.
func TestRowsShownAndBroken(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		create, insert string
		left           time.Duration // lease left of the inserted row
	}{
		{
			"shedlock", shedLockTable,
			"INSERT INTO locks VALUES " +
				"('job b', UTC_TIMESTAMP(3) + INTERVAL 1 MINUTE, UTC_TIMESTAMP(3) - INTERVAL 1 MINUTE, 'host-7')",
			time.Minute,
		},
		{
			"tb_distributed_lock", methodLockTable,
			"INSERT INTO locks (dl_method_name, dl_device_info, dl_operate_time) " +
				"VALUES ('job b', 'host-7', NOW() - INTERVAL 1 MINUTE)",
			4 * time.Minute,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url, db := rowsURL(t, test.name, test.create)
			mustExec(t, db, test.insert)
			d := rowsOpener(url)(t)
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
