package jobs

import (
	"testing"
	"time"
	_ "time/tzdata" // of this release, so that the tables do not depend on the machine
)

// Each time zone jumps from 2 h to 3 h, or back from 3 h to 2 h; Lord Howe jumps by half an hour.
func TestJumpsOfTheClock(t *testing.T) {
	for _, tt := range []struct{ name, schedule, after, want string }{
		{"a time that is left out comes at the jump", "CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"},
		{"and not again", "CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		{"times that are left out come once", "CRON_TZ=Europe/Berlin */10 2 * * *", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"},
		{"a time that is shown twice has the first", "CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"and only that", "CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		{"the end of the hour that is shown twice", "CRON_TZ=Europe/Berlin 0 3 * * *", "2026-10-24T12:00:00Z", "2026-10-25T02:00:00Z"},
		{"each hour, before the jump", "CRON_TZ=Europe/Berlin 30 * * * *", "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"},
		{"each hour, at the jump", "CRON_TZ=Europe/Berlin 0 * * * *", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"},
		{"each hour, shown twice", "CRON_TZ=Europe/Berlin 30 * * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"each hour, at the jump back", "CRON_TZ=Europe/Berlin 0 * * * *", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"},
		{"America", "CRON_TZ=America/New_York 30 2 * * *", "2026-03-07T12:00:00Z", "2026-03-08T07:00:00Z"},
		{"America, back", "CRON_TZ=America/New_York 30 1 * * *", "2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"},
		{"half an hour", "CRON_TZ=Australia/Lord_Howe 15 2 * * *", "2026-10-03T12:00:00Z", "2026-10-03T15:30:00Z"},
		{"half an hour, back", "CRON_TZ=Australia/Lord_Howe 45 1 * * *", "2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"},
		{"each hour, half an hour", "CRON_TZ=Australia/Lord_Howe 0 * * * *", "2026-10-03T14:30:00Z", "2026-10-03T16:00:00Z"},
		{"no jumps", "30 2 * * *", "2026-03-29T00:00:00Z", "2026-03-29T02:30:00Z"},
		{"every", "@every 10m", "2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z"},
		{"every, at a tick", "@every 10m", "2026-03-29T01:00:00Z", "2026-03-29T01:10:00Z"},
		{"daily", "TZ=Europe/Berlin @daily", "2026-03-29T12:00:00Z", "2026-03-29T22:00:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := parse(tt.schedule, time.UTC)
			if err != nil {
				t.Fatal(err)
			}
			after, err := time.Parse(time.RFC3339, tt.after)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.next(after).UTC().Format(time.RFC3339); got != tt.want {
				t.Errorf("%s after %s: got %s, want %s", tt.schedule, tt.after, got, tt.want)
			}
		})
	}
}

// A time of the day has one tick on each day of the zone, and each half hour that passes has one, through all jumps of a
// year.
func TestEachDayAndHalfHourOnce(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kolkata"} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Date(2025, 12, 31, 23, 59, 59, 0, loc)
		end := begin.AddDate(1, 0, 0)
		for _, clock := range []string{"0 0", "30 1", "0 2", "15 2", "30 2", "59 2", "0 3", "30 3"} {
			s, err := parse(clock+" * * *", loc)
			if err != nil {
				t.Fatal(err)
			}
			days := 0
			last := ""
			for tick := s.next(begin); !tick.After(end); tick = s.next(tick) {
				day := tick.In(loc).Format(time.DateOnly)
				if day == last {
					t.Errorf("%s %q: two ticks on %s", zone, clock, day)
				}
				days, last = days+1, day
			}
			if days != 365 {
				t.Errorf("%s %q: %d ticks in a year of 365 days", zone, clock, days)
			}
		}
		s, err := parse("*/30 * * * *", loc)
		if err != nil {
			t.Fatal(err)
		}
		for tick := s.next(begin); tick.Before(end); tick = s.next(tick) {
			if got := s.next(tick).Sub(tick); got != 30*time.Minute {
				t.Fatalf("%s: %v from %s to the next half hour", zone, got, tick)
			}
		}
	}
}

func TestBadSchedules(t *testing.T) {
	for _, tt := range []struct{ schedule, want string }{
		{"", `schedule "": empty: want five fields (minute, hour, day, month, weekday), @daily, or @every 10m`},
		{"0 3 * *", `schedule "0 3 * *": 4 fields: want five: minute, hour, day, month, weekday`},
		{"0 3 * * * *", `schedule "0 3 * * * *": 6 fields: want five: minute, hour, day, month, weekday`},
		{"61 3 * * *", `schedule "61 3 * * *": column 1, minute: end of range (61) above maximum (59): 61`},
		{"0  25 * * *", `schedule "0  25 * * *": column 4, hour: end of range (25) above maximum (23): 25`},
		{"CRON_TZ=Europe/Berlin 0 3 x * *", `schedule "CRON_TZ=Europe/Berlin 0 3 x * *": column 27, day: failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax`},
		{"CRON_TZ=Mars/Base 0 3 * * *", `schedule "CRON_TZ=Mars/Base 0 3 * * *": column 9: no time zone "Mars/Base" is known here: want a name like Europe/Berlin`},
		{"CRON_TZ=UTC", `schedule "CRON_TZ=UTC": empty: want five fields (minute, hour, day, month, weekday), @daily, or @every 10m`},
		{"ZONE=UTC 0 3 * * *", `schedule "ZONE=UTC 0 3 * * *": column 1: "ZONE": only CRON_TZ can be set here`},
		{"@every", `schedule "@every": column 1: @every takes one duration, like 10m`},
		{"@every 10", `schedule "@every 10": column 8: "10": want a duration of a second or more, like 90s, 10m or 1h30m`},
		{"@every 1ms", `schedule "@every 1ms": column 8: "1ms": want a duration of a second or more, like 90s, 10m or 1h30m`},
		{"@reboot", `schedule "@reboot": column 1: unrecognized descriptor: @reboot`},
		{"@daily 3", `schedule "@daily 3": column 8: nothing can follow @daily`},
		{"0 0 30 2 *", `schedule "0 0 30 2 *": no day of the next five years is meant`},
	} {
		_, err := parse(tt.schedule, time.UTC)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%q: got %v, want %s", tt.schedule, err, tt.want)
		}
	}
}

// The weekday 7 is Sunday, as in other crons.
func TestWeekdaySeven(t *testing.T) {
	for field, want := range map[string]string{
		"7": "0", "1,7": "1,0", "5-7": "5,6,0", "0-7": "0,1,2,3,4,5,6,0", "1-7/3": "1,4,0", "7-7": "0", "*": "*", "1-5": "1-5", "sun": "sun", "8-7": "8-7",
	} {
		if got := sunday(field); got != want {
			t.Errorf("weekday %s is read as %s, want %s", field, got, want)
		}
	}
	if _, err := parse("0 3 * * 5-7", time.UTC); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"*/61 * * * *", "1,,15 * * * *", "1, * * * *", "* */25 * * *", "* * * * */8", "* * * * 8", "* * * * 7-8"} {
		if _, err := parse(text, time.UTC); err == nil {
			t.Errorf("schedule %q is taken", text)
		}
	}
}
