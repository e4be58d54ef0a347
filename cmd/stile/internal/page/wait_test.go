package page

import (
	"testing"
	"time"

	"github.com/stilelock/stile"
)

// busy is a queue with a holder and two who wait.
var busy = stile.Queue{Name: "backup", Claims: []stile.Claim{
	{Ticket: 1024, Holds: true, Since: 185 * time.Second, Remaining: 12 * time.Second,
		Holder: stile.Holder{Owner: "nightly", Program: "stile", Host: "web1", PID: 4242, Reason: "full\x1b[2J backup"}},
	{Ticket: 2048, Since: 40 * time.Second, Holder: stile.Holder{Program: "stile", Host: "web2", PID: 7}},
	{Ticket: 3072, Since: 12 * time.Second, Holder: stile.Holder{Program: "stile", Host: "web3", PID: 8}},
}}

func TestWait(t *testing.T) {
	readers := stile.Queue{Claims: []stile.Claim{
		{Ticket: 1, Holds: true, Holder: stile.Holder{Program: "a"}}, {Ticket: 2, Holds: true, Holder: stile.Holder{Program: "b"}},
	}}
	one := func(c stile.Claim) stile.Queue { c.Holds = true; return stile.Queue{Claims: []stile.Claim{c}} }
	for _, tt := range []struct {
		name  string
		wait  Wait
		cells int
		clock bool
		want  string
	}{
		{"all", Wait{Name: "backup", Waited: 12 * time.Second, Ticket: 3072, Queue: busy, Seen: true}, 0, true,
			`waiting 12s for backup: place 2 of 2, held by nightly on web1 (came 3m5s ago, pid 4242, full\x1b[2J backup)`},
		{"80 columns", Wait{Name: "backup", Waited: 12 * time.Second, Ticket: 2048, Queue: busy, Seen: true}, 79, true,
			"waiting 12s for backup: place 1 of 2, held by nightly on web1 (came 3m5s ago…"},
		{"40 columns", Wait{Name: "backup", Waited: 12 * time.Second, Ticket: 2048, Queue: busy, Seen: true}, 39, true,
			"backup: waiting 12s, place 1/2, held b…"},
		{"60 columns", Wait{Name: "backup", Waited: 12 * time.Second, Most: time.Minute, Ticket: 3072, Queue: busy, Seen: true}, 59, true,
			"backup: waiting 12s, place 2/2, held by nightly on web1 (c…"},
		{"a long name", Wait{Name: "customers/europe/invoices/2026", Waited: time.Second, Queue: busy, Seen: true}, 59, true,
			"custom…es/2026: waiting 1s, held by nightly on web1 (came…"},
		{"a wide name", Wait{Name: "数据库备份任务清单列表", Waited: time.Second}, 24, true, "数…列表: waiting 1s"},
		{"a name that would move the cursor", Wait{Name: "a\x1b[2J"}, 0, false, `waiting for a\x1b[2J`},
		{"for so long", Wait{Name: "a", Waited: 61 * time.Second, Most: 2 * time.Minute}, 80, true, "waiting 1m1s of 2m for a"},
		{"without the clock", Wait{Name: "a", Waited: time.Minute, Most: time.Hour, Ticket: 2048, Queue: busy, Seen: true}, 0, false,
			`waiting for a: place 1 of 2, held by nightly on web1 (pid 4242, full\x1b[2J backup)`},
		{"the store is silent", Wait{Name: "a", Queue: busy, Seen: true, Silent: true}, 0, true, "waiting 0s for a: the store does not answer"},
		{"nobody holds", Wait{Name: "a", Seen: true}, 0, true, "waiting 0s for a"},
		{"readers", Wait{Name: "a", Queue: readers, Seen: true}, 0, false, "waiting for a: held by 2, first a"},
		{"another program", Wait{Name: "a", Queue: one(stile.Claim{Holder: stile.Holder{Value: "curator"}}), Seen: true}, 0, false,
			"waiting for a: held by another program (curator)"},
		{"a lock-delay", Wait{Name: "a", Queue: one(stile.Claim{Remaining: -1, Holder: stile.Holder{Owner: "x"}}), Seen: true}, 0, false,
			"waiting for a: in the lock-delay after x"},
		{"--at-least", Wait{Name: "a", Queue: one(stile.Claim{Left: true}), Seen: true}, 0, false, "waiting for a: kept after somebody unknown"},
	} {
		got := tt.wait.Text(tt.cells, tt.clock)
		if got != tt.want {
			t.Errorf("%s: %q; want %q", tt.name, got, tt.want)
		}
		if tt.cells > 0 && Width(got) > tt.cells {
			t.Errorf("%s: %q takes %d cells; want at most %d", tt.name, got, Width(got), tt.cells)
		}
	}
}

func TestCells(t *testing.T) {
	for _, tt := range []struct {
		text  string
		cells int
		cut   string // to 4
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcde", 5, "abc…"}, {"备份", 4, "备份"}, {"备份任务", 8, "备…"}, {"e\u0301te\u0301s", 4, "e\u0301te\u0301s"},
		{"ab cd", 5, "ab…"}, {"🔒🔒🔒", 6, "🔒…"},
	} {
		if got := Width(tt.text); got != tt.cells {
			t.Errorf("%q takes %d cells; want %d", tt.text, got, tt.cells)
		}
		if got := Cut(tt.text, 4); got != tt.cut {
			t.Errorf("%q cut to 4 cells: %q; want %q", tt.text, got, tt.cut)
		}
		if got := pad(tt.text, 4); Width(got) != 4 {
			t.Errorf("%q padded to 4 cells: %q", tt.text, got)
		}
	}
	if got := Cut("abc", 0); got != "" {
		t.Errorf("cut to nothing: %q", got)
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 900 * time.Millisecond: "0s", 59 * time.Second: "59s", 3 * time.Minute: "3m", 200 * time.Second: "3m20s",
		2*time.Hour + 5*time.Minute + 9*time.Second: "2h5m", 24 * time.Hour: "1d", 76 * time.Hour: "3d4h",
	} {
		if got := Short(d); got != want {
			t.Errorf("%v is %q; want %q", d, got, want)
		}
	}
}
