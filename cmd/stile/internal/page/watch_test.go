package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/golden"
)

// framed writes a page with its styles before, and its edges.
func framed(lines []Line, columns int) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%s %s|\n", [...]string{"     ", "bold ", "dim  ", "good ", "warn ", "bad  "}[l.Style], pad(l.Text, columns))
	}
	return b.String()
}

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// pages are the pages of stile watch with different parts.
func pages() map[string]*Watch {
	before := stile.Queue{Name: "backup", Claims: busy.Claims[:2]}
	news := Changes(nil, before, noon.Add(-time.Minute))
	news = append(news, Changes(&before, busy, noon.Add(-12*time.Second))...)
	many := stile.Queue{Name: "permits/多", Permits: 5}
	for i := range 40 {
		many.Claims = append(many.Claims, stile.Claim{
			Ticket: int64(i), Holds: i < 3, Weight: 1, Since: time.Duration(3600-i) * time.Second, Left: i == 1, Remaining: 9 * time.Second,
			Holder: stile.Holder{Owner: fmt.Sprintf("任务-%d", i), Host: "a-host-with-a-long-name.example.org", PID: 10000 + i, Reason: "模拟"},
		})
	}
	return map[string]*Watch{
		"busy":    {Queue: busy, Now: noon, Seen: true, Changes: news},
		"many":    {Queue: many, Now: noon, Seen: true, Changes: news},
		"free":    {Queue: stile.Queue{Name: "a name\u202e"}, Now: noon, Seen: true, Changes: []Change{{At: noon, What: "free"}}},
		"silent":  {Queue: busy, Now: noon, Seen: true, Silent: noon.Add(-5 * time.Second)},
		"looking": {Queue: stile.Queue{Name: "a"}, Now: noon},
	}
}

func TestWatchPage(t *testing.T) {
	for name, w := range pages() {
		var b strings.Builder
		for _, columns := range []int{100, 80, 60, 40} {
			b.WriteString(framed(w.Lines(columns, 18), columns))
		}
		golden.Is(t, "watch-"+name+".txt", b.String())
	}
}

// A page fits every terminal, with its name and its end on it.
func TestWatchPageFits(t *testing.T) {
	for name, w := range pages() {
		for columns := 1; columns < 200; columns += 3 {
			for rows := 1; rows < 60; rows++ {
				lines := w.Lines(columns, rows)
				if len(lines) != rows {
					t.Fatalf("%s on %d×%d: %d lines", name, columns, rows, len(lines))
				}
				for _, l := range lines {
					if Width(l.Text) > columns {
						t.Fatalf("%s on %d×%d: %q is too wide", name, columns, rows, l.Text)
					}
				}
				if columns > 6 && lines[rows-1].Text != footer {
					t.Fatalf("%s on %d×%d: the last line is %q", name, columns, rows, lines[rows-1].Text)
				}
			}
		}
	}
}

func TestChanges(t *testing.T) {
	claim := func(ticket int64, holds bool) stile.Claim {
		return stile.Claim{Ticket: ticket, Holds: holds, Holder: stile.Holder{Owner: fmt.Sprint("o", ticket)}}
	}
	queue := func(claims ...stile.Claim) *stile.Queue { return &stile.Queue{Claims: claims} }
	kept, out := claim(1, true), claim(1, true)
	kept.Left, out.Remaining = true, -1
	for _, tt := range []struct {
		name   string
		before *stile.Queue
		now    *stile.Queue
		want   string
	}{
		{"the first look", nil, queue(claim(1, true), claim(2, false)), "holds o1, waits o2"},
		{"the first look at nobody", nil, queue(), "free"},
		{"nothing", queue(claim(1, true)), queue(claim(1, true)), ""},
		{"nobody yet", queue(), queue(), ""},
		{"a hand-over", queue(claim(1, true), claim(2, false)), queue(claim(2, true)), "left o1, holds o2"},
		{"one who gives up", queue(claim(1, true), claim(2, false)), queue(claim(1, true)), "left o2"},
		{"the last", queue(claim(1, true)), queue(), "left o1, free"},
		{"kept", queue(claim(1, true)), queue(kept), "kept o1"},
		{"in the lock-delay", queue(claim(1, true)), queue(out), "run out o1"},
	} {
		var words []string
		for _, c := range Changes(tt.before, *tt.now, noon) {
			words = append(words, strings.Join(strings.Fields(c.Text()), " "))
		}
		if got := strings.Join(words, ", "); got != tt.want {
			t.Errorf("%s: %q; want %q", tt.name, got, tt.want)
		}
	}
}

func TestPaint(t *testing.T) {
	lines := []Line{{"a", Good}, {"", Bold}, {"b", Plain}}
	if got, want := strings.Join(Paint(lines, true), "|"), "\x1b[32ma\x1b[0m||b"; got != want {
		t.Errorf("with colours: %q; want %q", got, want)
	}
	if got, want := strings.Join(Paint(lines, false), "|"), "a||b"; got != want {
		t.Errorf("without colours: %q; want %q", got, want)
	}
	if got, want := Summary([]Line{{"a", Bold}, {}, {"b", Dim}, {}, {}, {footer, Dim}}), "a\n\nb\n"; got != want {
		t.Errorf("to be kept: %q; want %q", got, want)
	}
}
