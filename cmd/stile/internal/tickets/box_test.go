package tickets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/exit"
)

// The judge must see what goes wrong, or the demonstration proves nothing.
func TestDemoJudges(t *testing.T) {
	good := []sale{{ticket: 3, seller: 1, token: 1}, {ticket: 2, seller: 2, token: 2}, {ticket: 1, seller: 1, token: 5}}
	for _, tt := range []struct {
		name  string
		sales []sale
		torn  int
		want  string // in the error; none if empty
	}{
		{"good", good, 0, ""},
		{"twice", append([]sale{{ticket: 3, seller: 2}}, good...), 0, "oversold with the lock: 1 tickets more than once, number 3 to 2 customers"},
		{"too few", good[:2], 0, "2 tickets were sold, not 3"},
		{"token stays", []sale{good[0], {ticket: 2, token: 1}, good[2]}, 0, "the tokens did not rise"},
		{"token falls", []sale{good[2], good[1], good[0]}, 0, "the tokens did not rise"},
		{"half a sale is seen", good, 2, "with the lock, 2 of 5 looks saw a half-made sale"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &ticketsDemo{processes: 2, tickets: 3, Display: demo.Display{Out: &strings.Builder{}}}
			err := d.judge(&box{tickets: 3, pids: []int{1, 2}, sales: tt.sales, seen: looking{looks: 5, torn: tt.torn}})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if err != nil {
				if got, _ := exit.Of(err); got != exit.Failed {
					t.Errorf("status %d, want %d", got, exit.Failed)
				}
			}
		})
	}
}

// Tokens that mean nothing in the store need not rise.
func TestDemoWithoutTokens(t *testing.T) {
	var out strings.Builder
	d := &ticketsDemo{processes: 2, tickets: 2, Display: demo.Display{Out: &out}, tokenless: true}
	if err := d.judge(&box{tickets: 2, pids: []int{1, 2}, sales: []sale{{ticket: 2, token: 1}, {ticket: 1, token: 1}}}); err != nil {
		t.Error(err)
	}
	if want := "Exactly 2, none twice. This store gives no tokens"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, &out)
	}
}

func TestBoxReadsLedger(t *testing.T) {
	b, err := openBox(filepath.Join(t.TempDir(), "box"), 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.AppendTo(b.ledger(), "2 1 77 1500 1000000 2000000\n"); err != nil {
		t.Fatal(err)
	}
	if err := b.read(); err != nil || len(b.sales) != 1 || b.sales[0] != (sale{2, 1, 77, 1500 * time.Microsecond, time.Unix(1, 0), time.Unix(2, 0)}) {
		t.Errorf("%+v, %v", b.sales, err)
	}
	if err := demo.AppendTo(b.ledger(), "1 1\n"); err != nil {
		t.Fatal(err)
	}
	if err := b.read(); err == nil {
		t.Error("a torn line is read")
	}
	if text, err := os.ReadFile(b.left()); err != nil || len(text) != len(demo.CountText(10000)) {
		t.Errorf("%q, %v", text, err)
	}
}

// A browser that looks in the middle of a sale sees it.
func TestBoxIsWhole(t *testing.T) {
	b, err := openBox(filepath.Join(t.TempDir(), "box"), 2)
	if err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct {
		do   func() error
		want bool
	}{
		{func() error { return nil }, true},
		{func() error { return demo.Patch(b.left(), demo.CountText(1)) }, false},
		{func() error { return demo.AppendTo(b.ledger(), "2 1 77 1500 1000000 2000000\n") }, true},
		{func() error { return demo.AppendTo(b.ledger(), "2 2 0 1500 1000000 2000000\n") }, false},
	} {
		if err := tt.do(); err != nil {
			t.Fatal(err)
		}
		if got, err := b.whole(); err != nil || got != tt.want {
			t.Errorf("step %d: %v, %v; want %v", i, got, err, tt.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	list := []time.Duration{1, 2, 3, 4}
	for part, want := range map[float64]time.Duration{0: 1, 0.5: 3, 0.99: 4, 1: 4} {
		if got := quantile(list, part); got != want {
			t.Errorf("%v: got %d, want %d", part, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// The judge must see what goes wrong, or the demo proves nothing.
func TestTicketsChaosJudges(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(free, locked, guarded *part)
		want string // in the error; none if empty
	}{
		{"good", func(_, _, _ *part) {}, ""},
		{"nothing without lock", func(free, _, _ *part) { free.sales = free.sales[:2] }, "without a lock each ticket was sold once"},
		{"not sold", func(_, _, g *part) { g.sales = g.sales[:1] }, "with lock and guard, 1 tickets were not sold"},
		{"twice with guard", func(_, _, g *part) { g.sales = append(g.sales, sale{ticket: 2, token: 9}) }, "number 2 to 2 customers"},
		{"half a sale is seen", func(_, _, g *part) { g.seen = looking{looks: 7, torn: 1} }, "with lock and guard, 1 of 7 looks saw a half-made sale"},
		{"nothing refused", func(_, _, g *part) { g.refused = nil }, "the guard refused nothing"},
		{"token stays", func(_, _, g *part) { g.sales[1].token = 1 }, "the tokens did not rise"},
		{"nobody killed", func(_, l, _ *part) { l.killed = nil }, "with lock, not both faults hit"},
		{"nobody got the lock", func(_, l, _ *part) { l.overtakers = 0 }, "with lock, nobody sold while a seller was stopped for 2s"},
		{"nothing late with lock", func(_, l, _ *part) { l.sales = l.sales[:2] }, "the lock without a guard sold each ticket once"},
		{"twice while the lease was good", func(_, l, _ *part) { l.lost = nil }, "ticket 2 was sold more than once, although no lease had been lost"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sold := func(title string, sales ...sale) *part {
				return &part{title, &selling{box: &box{tickets: 2, sales: sales}, havoc: havoc{
					killed: &demo.Process{Number: 1}, stopped: &demo.Process{Number: 2}, goesOn: 2e9, overtakers: 3,
				}}}
			}
			free := sold("without lock", sale{ticket: 2}, sale{ticket: 1}, sale{ticket: 1})
			locked := sold("with lock", sale{ticket: 2, token: 2}, sale{ticket: 1, token: 3}, sale{ticket: 2, token: 1})
			guarded := sold("with lock and guard", sale{ticket: 2, token: 1}, sale{ticket: 1, token: 3})
			locked.lost, guarded.refused = map[int64]bool{1: true}, []string{"stale"}
			tt.edit(free, locked, guarded)
			err := judgeParts([]*part{free, locked, guarded})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if code, _ := exit.Of(err); err != nil && code != exit.Failed {
				t.Errorf("not status %d", exit.Failed)
			}
		})
	}
}
