package page

import (
	"testing"
	"time"

	"github.com/stilelock/stile"
)

// A holder that a live client would have renewed is shown as unrenewed; nothing is claimed if the store does not report
// leases.
func TestLease(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		what string
		c    stile.Claim
		want string
	}{
		{"live", stile.Claim{Holds: true, Since: time.Hour, TTL: 15 * s, Remaining: 10 * s}, "10s"},
		{"dead", stile.Claim{Holds: true, Since: time.Hour, TTL: 15 * s, Remaining: 4 * s}, "4s, not renewed for 11s"},
		{"new", stile.Claim{Holds: true, Since: s, TTL: 15 * s, Remaining: 4 * s}, "4s"},
		{"waits", stile.Claim{Since: time.Hour, TTL: 15 * s, Remaining: 4 * s}, "4s"},
		{"kept", stile.Claim{Holds: true, Left: true, Since: time.Hour, TTL: 15 * s, Remaining: 4 * s}, "4s"},
		{"of an old client", stile.Claim{Holds: true, Since: time.Hour, Remaining: 4 * s}, "4s"},
		{"in a session", stile.Claim{Holds: true, Since: time.Hour, TTL: 15 * s}, ""},
	} {
		if got := Lease(tt.c); got != tt.want {
			t.Errorf("%s: %q; want %q", tt.what, got, tt.want)
		}
	}
}

// A person is not shown the records of jobs, nor counts a released claim among the holders.
func TestListOfKept(t *testing.T) {
	q := stile.Queue{Name: "nightly/last", Claims: []stile.Claim{{
		Holds: true, Left: true, Since: time.Minute, Remaining: 23 * time.Hour,
		Holder: stile.Holder{Program: "stile", Host: "web1", PID: 7, Value: `{"tick":"2026-01-31T12:00:00Z"}`},
	}}}
	got := List([]stile.Queue{q}, 200)[1]
	if want := "nightly/last  0     0"; len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("got %q; want nobody to hold or wait", got)
	}
	if row := cellsOfClaim(q, q.Claims[0]); row[0] != "kept" || row[1] != "stile (a record)" {
		t.Errorf("got %q; want no JSON", row)
	}
	if got := Value("10.0.0.7:80"); got != "10.0.0.7:80" {
		t.Errorf("a value is shown as %q", got)
	}
}
