package drive

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
)

// redraws bounds how often an id is lost until one is drawn that will do. At least one in four does, so that all fail once
// in 10^12.
const redraws = 100

// inMiddle are digits that have at least a quarter of the others on either side: of an id in base 16, and of one in base 32
// (package storeid), whose A to Z come after 2 to 7.
const inMiddle = "89ab" + "CDEFGHIJKLMNOPQR"

// IdentityLost tests a joined lock of two stores if the first loses its id while the lock is held: the lease goes on, nobody
// else gets one of its parts, and the release is clean. The next join uses the new id. The functions make a store lose its
// id.
func IdentityLost(t *testing.T, urls [2]string, lose [2]func()) {
	t.Helper()
	ids := func() (list [2]string) {
		for i, url := range urls {
			d := Opener(url)(t)
			id, err := d.(driver.Identifier).Identity(Timely(t))
			if d.Close(); err != nil {
				t.Fatalf("identity: %v; want an id", err)
			}
			list[i] = id
		}
		return list
	}
	redraw := func(i int, until func(ids [2]string) bool) [2]string {
		list := ids()
		for n := 0; !until(list); n++ {
			if n == redraws {
				t.Fatalf("the ids are %q after that of store %d was lost %d times; want another order of them", list, i, n)
			}
			lose[i]()
			list = ids()
		}
		return list
	}
	// The second's id is neither among the smallest nor among the largest: the first's can come to be on its other side.
	redraw(1, func(ids [2]string) bool { return strings.ContainsAny(ids[1][:1], inMiddle) })
	join := func() *stile.Lock {
		var locks []*stile.Lock
		for i, url := range urls {
			c, err := stile.Open(Timely(t), url, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			locks = append(locks, c.Mutex([]string{"of the first", "of the second"}[i]))
		}
		return stile.Join(locks...)
	}
	one, other := join(), join()
	lock := func(l *stile.Lock) (lease *stile.Lease, names []string) {
		t.Helper()
		lease, err := l.Lock(Timely(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range lease.Parts() {
			names = append(names, p.Name())
		}
		return lease, names
	}
	lease, before := lock(one)
	was := ids()
	now := redraw(0, func(ids [2]string) bool { return (ids[0] < ids[1]) != (was[0] < was[1]) })
	if now[1] != was[1] {
		t.Errorf("the id that nobody deleted is %q, and was %q", now[1], was[1])
	}
	if _, err := other.TryLock(Timely(t)); !errors.Is(err, stile.ErrHeld) {
		t.Errorf("another's try = %v; want ErrHeld", err)
	}
	if err := lease.Check(); err != nil {
		t.Errorf("the lease = %v; want it to go on", err)
	}
	if err := lease.Unlock(); err != nil {
		t.Errorf("unlock = %v; want nil", err)
	}
	next, after := lock(other)
	if slices.Reverse(after); !slices.Equal(after, before) {
		t.Errorf("the next join took the parts in the reverse of %q, and the first in %q; want the other order by the new id",
			after, before)
	}
	if err := next.Unlock(); err != nil {
		t.Errorf("unlock = %v; want nil", err)
	}
}
