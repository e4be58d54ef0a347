package elect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/answer"
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
	golden(t, "leader.json", b.String())
}

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\n%s has\n%s", got, path, want)
	}
}
