package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/golden"
)

func tops() map[string]*Top {
	held := stile.Queue{Name: "a/quiet/one", Claims: []stile.Claim{
		{Holds: true, Since: 26 * time.Hour, Remaining: 9 * time.Second, Holder: stile.Holder{Program: "stile", Host: "web1", PID: 3}}}}
	later := busy
	later.Name, later.Claims = "later", busy.Claims[:2]
	permits := stile.Queue{Name: "licences", Permits: 5, Claims: []stile.Claim{{Holds: true, Weight: 2, Holder: stile.Holder{Owner: "模拟"}}}}
	queues := []stile.Queue{held, later, busy, permits}
	Contended(queues)
	var many []stile.Queue
	for i := range 30 {
		q := busy
		q.Name = fmt.Sprintf("team/a-long-name-of-a-lock-with-many-parts/%d", i)
		many = append(many, q)
	}
	return map[string]*Top{
		"some":    {Queues: queues, Now: noon, Seen: true},
		"many":    {Queues: many, Now: noon, Seen: true},
		"none":    {Now: noon, Seen: true},
		"looking": {Now: noon},
		"silent":  {Queues: queues, Now: noon, Seen: true, Silent: noon.Add(-time.Minute)},
	}
}

func TestTopPage(t *testing.T) {
	for name, top := range tops() {
		var b strings.Builder
		for _, columns := range []int{80, 60, 40} {
			b.WriteString(framed(top.Lines(columns, 12), columns))
		}
		golden.Is(t, "top-"+name+".txt", b.String())
		for columns := 1; columns < 200; columns += 3 {
			for rows := 1; rows < 60; rows++ {
				lines := top.Lines(columns, rows)
				if len(lines) != rows {
					t.Fatalf("%s on %d×%d: %d lines", name, columns, rows, len(lines))
				}
				for _, l := range lines {
					if Width(l.Text) > columns {
						t.Fatalf("%s on %d×%d: %q is too wide", name, columns, rows, l.Text)
					}
				}
			}
		}
	}
}

func TestContended(t *testing.T) {
	var names []string
	for _, q := range tops()["some"].Queues {
		names = append(names, q.Name)
	}
	if got, want := strings.Join(names, " "), "backup later a/quiet/one licences"; got != want {
		t.Errorf("sorted: %s; want %s", got, want)
	}
}
