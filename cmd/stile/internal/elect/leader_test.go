package elect

import (
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/golden"
)

func TestLeaderLine(t *testing.T) {
	for want, l := range map[string]stile.Leader{
		"nobody leads": {},
		"10.0.0.1:80 leads, from token 1024: ann on web1, pid 7 (test)": {
			Ticket: 1024, Value: "10.0.0.1:80", Holder: stile.Holder{Owner: "ann", Host: "web1", PID: 7, Reason: "test", Value: "10.0.0.1:80"},
		},
		"ann on web1, pid 7 leads, from token 1024": {Ticket: 1024, Holder: stile.Holder{Owner: "ann", Host: "web1", PID: 7}},
		"10.0.0.2 leads, from token 1024":           {Ticket: 1024, Value: "10.0.0.2", Holder: stile.Holder{Value: "10.0.0.2"}},
		"somebody unknown leads, from token 1024":   {Ticket: 1024},
		`'\u202e\x1b[2J' leads, from token 1024`:    {Ticket: 1024, Value: "\u202e\x1b[2J", Holder: stile.Holder{Value: "\u202e\x1b[2J"}},
	} {
		if got := leaderLine(l); got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	}
}

func TestLeaderJSON(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	var b strings.Builder
	for _, l := range []stile.Leader{{}, {Ticket: 1 << 60, Value: "v", Holder: stile.Holder{Owner: "o", Program: "p", Host: "h", PID: 7, Reason: "r", Value: "v"}}} {
		if err := answer.JSON(&b, leaderViewOf("a", l, at), ""); err != nil {
			t.Error(err)
		}
	}
	golden.Is(t, "leader.json", b.String())
}
