//go:build unix

package payment

import (
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/exit"
)

// The judge must see what goes wrong, or the demonstration proves nothing.
func TestPaymentJudges(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(free, locked, guarded, tx *column)
		want string // in the error; none if empty
	}{
		{"good", func(_, _, _, _ *column) {}, ""},
		{"twice in the transaction", func(_, _, _, tx *column) { tx.twice = []int{2} }, "with the lock in the transaction, 1 orders were charged more than once"},
		{"money lost in the transaction", func(_, _, _, tx *column) { tx.taken = 29 }, "and 29 was taken for 30"},
		{"nobody waits for the transaction", func(_, _, _, tx *column) { tx.waited = false }, "nobody waited for order 2"},
		{"nobody killed", func(_, _, _, tx *column) { tx.killAt = 2 }, "lock in transaction, nobody was killed"},
		{"nothing without lock", func(free, _, _, _ *column) { free.twice = nil }, "this shows nothing"},
		{"not charged", func(_, _, g, _ *column) { g.open = []int{3, 4} }, "with lock and guard, 2 orders were not charged, number 3 first"},
		{"twice with guard", func(_, _, g, _ *column) { g.twice = []int{2} }, "with lock and guard, 1 orders were charged more than once"},
		{"money lost with guard", func(_, _, g, _ *column) { g.taken = 31 }, "and 31 was taken for 30"},
		{"nothing refused", func(_, _, g, _ *column) { g.refused = nil }, "the guard refused nothing"},
		{"twice while the lease was good", func(_, l, _, _ *column) { l.twice = []int{2, 3} }, "order 3 was charged more than once, although no lease of it was lost"},
		{"nothing late with lock", func(_, l, _, _ *column) { l.twice = nil }, "the lock without a guard charged every order once"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sum := tally{once: 2, price: 30, taken: 30}
			free := &column{title: "without lock", tally: sum}
			locked := &column{title: "with lock", tally: sum, lost: []int{2}}
			guarded := &column{way: payGuarded, title: "with lock and guard", tally: sum, refused: []string{"stale"}}
			free.twice, locked.twice = []int{1, 2}, []int{2}
			tx := &column{way: payInTx, title: "lock in transaction", tally: sum, stopAt: 2, waited: true}
			tt.edit(free, locked, guarded, tx)
			err := judgePayments([]*column{free, locked, guarded, tx})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if err != nil {
				if got, _ := exit.Of(err); got != exit.Failed {
					t.Errorf("status %d, want %d", got, exit.Failed)
				}
			}
		})
	}
}

func TestClerkMovesAsDrawn(t *testing.T) {
	c := &clerk{Process: &demo.Process{}, place: 3, state: clerkIdle}
	if err := c.move(clerkIdle, clerkBusy); err != nil || c.state != clerkBusy {
		t.Errorf("idle to busy: %v, %s", err, c.state)
	}
	if err := c.move(clerkStopped, clerkBusy); err == nil || err.Error() != "payment process 3 is busy, and not stopped" {
		t.Errorf("stopped to busy while it is busy: %v", err)
	}
}
