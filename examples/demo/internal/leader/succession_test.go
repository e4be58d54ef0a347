//go:build unix

package leader

import (
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/exit"
)

// The judge must see what goes wrong, or the demo proves nothing.
func TestLeaderDemoJudges(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(r *LeaderResult)
		want string // in the error; none if empty
	}{
		{"good", func(*LeaderResult) {}, ""},
		{"token stays", func(r *LeaderResult) { r.terms[1].token = 5 }, "term 2 has token 5 after 5"},
		{"token stays where tokens mean nothing", func(r *LeaderResult) { r.terms[1].token, r.tokenless = 5, true }, ""},
		{"late write taken", func(r *LeaderResult) { r.terms[0].writes[1].refused = "" }, "the guard took a late write"},
		{"no late write", func(r *LeaderResult) { r.terms[0].writes = nil }, "nobody wrote late"},
		{"no successor", func(r *LeaderResult) { r.terms[1].fault = FaultKill }, "of 2 leaders that a fault hit, not all had a successor"},
		{"lost with guard", func(r *LeaderResult) { r.Guarded.Lost = 1 }, "the guarded file lost 1 of 3 writes"},
		{"nothing lost without", func(r *LeaderResult) { r.Plain.Lost = 0 }, "the file without a guard lost nothing"},
		{"two at once", func(r *LeaderResult) { r.fail = demo.Wrong("candidates 1 and 2 led at once") }, "candidates 1 and 2 led at once"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &LeaderResult{succession: &succession{terms: []*term{
				{leader: &demo.Process{Number: 1}, token: 5, fault: FaultStop, writes: []write{{}, {late: true, refused: "stale"}}},
				{leader: &demo.Process{Number: 2}, token: 6, writes: []write{{}, {}}},
			}}}
			r.Plain, r.Guarded = leaderFileView{Writes: 4, Late: 1, Value: 2, Lost: 2}, leaderFileView{Writes: 3, Value: 3, Refused: 1}
			tt.edit(r)
			err := r.judge()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if code, _ := exit.Of(err); err != nil && code != exit.Failed {
				t.Errorf("not status %d", exit.Failed)
			}
		})
	}
}

// Two leaders at once, to whom nothing was done, are noticed.
func TestSuccessionSeesTwoLeaders(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(first *term)
		want bool
	}{
		{"both lead", func(*term) {}, true},
		{"the first is over", func(t *term) { t.over = time.Second }, false},
		{"the first is deposed, and does not know", func(t *term) { t.fault = FaultDepose }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := &term{leader: &demo.Process{Number: 1}, token: 1}
			tt.edit(first)
			s := &succession{terms: []*term{first}, show: func(string, ...any) {}}
			s.lead(demo.Heard{Notice: demo.Notice{What: didLead, Token: 2}, From: &demo.Process{Number: 2}})
			if (s.fail != nil) != tt.want || len(s.terms) != 2 {
				t.Errorf("got %v and %d terms; want an error: %v", s.fail, len(s.terms), tt.want)
			}
		})
	}
}
