package mysql

import "testing"

// The remembered state of a queue predicts whether this client's next claim will meet others.
func TestContended(t *testing.T) {
	tests := []struct {
		what              string
		before, after     int
		entering, leaving bool
	}{
		{"it enters alone", 0, 1, false, false},
		{"it leaves a waiter behind", 2, 1, false, true},
		{"it enters alone again, and the waiter may come again", 0, 1, false, true},
		{"it leaves alone", 1, 0, false, false},
		{"it enters behind another", 1, 2, true, false},
		{"it renews beside another", 2, 2, true, true},
		{"it renews alone", 1, 1, true, true},
		{"it leaves alone once more", 1, 0, false, false},
		{"and enters alone", 0, 1, false, false},
	}
	c := newContended()
	for _, tt := range tests {
		c.changed("name", tt.before, tt.after)
		if e, l := c.entering("name").Load(), c.leaving("name").Load(); e != tt.entering || l != tt.leaving {
			t.Errorf("%s: entering %v, leaving %v; want %v, %v", tt.what, e, l, tt.entering, tt.leaving)
		}
	}
}

// A holder whose waiter polled repeatedly hands the lock over by the short way, without a renewal.
func TestShortWayIsTaken(t *testing.T) {
	t.Parallel()
	url := fresh(t, server)
	from, to := open(t, url), open(t, url)
	for i := range 3 {
		a, b := claim("name", string(rune('a'+i))), claim("name", string(rune('x'+i)))
		enter(t, from, a)
		enter(t, to, b)
		if got := from.store.contended.leaving("name").Load(); got != (i > 0) {
			t.Errorf("round %d: the short way is taken: %v", i, got)
		}
		leave(t, from, a)
		await(t, to, b)
		leave(t, to, b)
	}
}
