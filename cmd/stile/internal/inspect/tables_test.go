package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/golden"
)

func TestTables(t *testing.T) {
	queue := stile.Queue{Name: "a\u202eb", Claims: []stile.Claim{
		{Ticket: 1024, Weight: 1, Holds: true, Since: 90 * time.Minute, Remaining: 12345 * time.Millisecond,
			Holder: stile.Holder{Owner: "nightly", Program: "stile", Host: "web1", PID: 7, Reason: "back\tup\x1b[2J"}},
		{Ticket: 2048, Weight: 1, Holds: true, Left: true, Since: time.Second, Remaining: 1234 * time.Millisecond},
		{Ticket: 3072, Since: 0, Remaining: -time.Second, Holder: stile.Holder{Program: "job", Value: "10.0.0.1:80"}},
		{Ticket: 4096, Since: time.Second, Holder: stile.Holder{Value: "told by no other program"}},
	}}
	permits := stile.Queue{Name: "p", Permits: 5, Claims: []stile.Claim{{Ticket: 1, Weight: 2, Holds: true, Remaining: time.Microsecond}}}
	var b strings.Builder
	for _, err := range []error{
		show(&b, queue), show(&b, permits), show(&b, stile.Queue{Name: "it's"}),
		list(&b, []stile.Queue{queue, permits}, false), list(&b, nil, false),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	golden.Is(t, "tables.txt", b.String())
}

func TestJSONOfALeaseThatTheStoreDoesNotTell(t *testing.T) {
	for left, want := range map[time.Duration]string{0: "null", time.Microsecond: "0", 1500 * time.Millisecond: "1.5", -time.Second: "-1"} {
		var b strings.Builder
		if err := answer.JSON(&b, viewOf(stile.Queue{Claims: []stile.Claim{{Remaining: left}}}), ""); err != nil {
			t.Error(err)
		}
		if !strings.Contains(b.String(), `"remaining":`+want+`,`) {
			t.Errorf("%v left: %s; want %s", left, b.String(), want)
		}
	}
}
