package sqlrow

import (
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

func TestText(t *testing.T) {
	t.Parallel()
	c := &driver.Claim{ID: "ID", Owner: "nightly", Client: "one", Record: `{"program":"report"}`}
	const tags = "2a3b62b53ddb9f16 7692c3ad3540bb80"
	tests := []struct {
		name, begin, record string
		room                int
		want                string
		standing            driver.ClaimInfo
	}{
		{
			"with its record", who(c), c.Record, 255, "stile ID 70000 10000 " + tags + " " + c.Record,
			driver.ClaimInfo{Remaining: 50 * time.Second, Record: c.Record},
		},
		{
			"without room", who(c), c.Record, 70, "stile ID 70000 10000 " + tags,
			driver.ClaimInfo{Remaining: 50 * time.Second, Record: "stile ID"},
		},
		{
			"with a record that a character set may lack", who(c), "Größe", 255, "stile ID 70000 10000 " + tags,
			driver.ClaimInfo{Remaining: 50 * time.Second, Record: "stile ID"},
		},
		{
			"kept", was(c), "a  b ", 255, "stile-left ID 70000 10000 " + tags + " a  b ",
			driver.ClaimInfo{Left: true, Remaining: 50 * time.Second, Record: "a  b "},
		},
	}
	for _, test := range tests {
		d := &Driver{room: test.room}
		c := *c
		c.Record = test.record
		got := d.text(test.begin, &c, 70*time.Second, 10*time.Second)
		if got != test.want {
			t.Errorf("%s: %q; want %q", test.name, got, test.want)
		}
		want := test.standing
		want.Ticket, want.Weight, want.Holds, want.Since = 7, driver.All, true, time.Second
		if s := standing(got, 7, time.Second, time.Minute); s != want {
			t.Errorf("%s: standing = %+v; want %+v", test.name, s, want)
		}
		again := driver.Claim{Owner: "nightly", Client: "two", Reclaim: true}
		if got, want := reclaims(&again, got), !test.standing.Left; got != want {
			t.Errorf("%s: reclaimed by the owner's next run: %v; want %v", test.name, got, want)
		}
		if again.Owner = "daily"; reclaims(&again, got) {
			t.Errorf("%s: reclaimed by another owner", test.name)
		}
	}
	other := standing("host-7", 7, -time.Second, time.Minute)
	if other.Record != "host-7" || other.Remaining != time.Minute || other.Since != 0 || other.Left {
		t.Errorf("another program's standing = %+v", other)
	}
	if s := standing(tests[0].want, 7, 0, 10*time.Second); s.Remaining >= 0 {
		t.Errorf("the lease left in the lock-delay is %v; want a negative one", s.Remaining)
	}
}

// FuzzText checks that the text of a row counts as stile's only if stile could have written it.
func FuzzText(f *testing.F) {
	for _, seed := range []string{
		"", "host-7", "stile", "stile a b c d e", "stile ID 1 2 o c",
		"stile-left ID 99999999999999999999 0 o c r", "stile ID -1 0 o c",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := parse(s)
		times := got.life >= 0 && got.life <= driver.MaxTTL && got.delay >= 0
		if ok && (!times || !strings.HasPrefix(s, "stile") || !strings.Contains(s, " "+got.id+" ")) {
			t.Errorf("%q is read as %+v", s, got)
		}
	})
}
