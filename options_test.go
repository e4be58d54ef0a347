package stile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// With keeps the value of a field that is zero. WithOnly resets it, whatever the lock or its client had, and clears the
// error of a wrong option.
func TestWithOnly(t *testing.T) {
	locks, err := stile.New(memory.New(), &stile.Options{
		LockOptions: stile.LockOptions{TTL: time.Minute, MaxHold: time.Hour, Reentrant: true, Owner: "job"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	l := locks.Mutex("a")
	long := stile.LockOptions{Owner: strings.Repeat("x", 5000)}
	for _, tt := range []struct {
		what      string
		got, want stile.LockOptions
	}{
		{"as it is", l.Options(), stile.LockOptions{TTL: time.Minute, MaxHold: time.Hour, Reentrant: true, Owner: "job"}},
		{"With", l.With(stile.LockOptions{MaxHold: time.Second}).Options(),
			stile.LockOptions{TTL: time.Minute, MaxHold: time.Second, Reentrant: true, Owner: "job"}},
		{"WithOnly", l.WithOnly(stile.LockOptions{MaxHold: time.Second}).Options(),
			stile.LockOptions{TTL: 15 * time.Second, MaxHold: time.Second}},
		{"nil", (*stile.Lock)(nil).Options(), stile.LockOptions{}},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.what, tt.got, tt.want)
		}
	}
	if _, err := l.With(long).TryLock(t.Context()); !errors.Is(err, stile.ErrInvalid) {
		t.Errorf("an owner that is too long: %v, want ErrInvalid", err)
	}
	careless, err := stile.New(memory.New(), &stile.Options{LockOptions: long})
	if err != nil {
		t.Fatal(err)
	}
	defer careless.Close()
	for _, l := range []*stile.Lock{careless.Mutex("a"), careless.Reader("a"), careless.Permit("b", 1, 2), careless.Candidate("c", "")} {
		if _, err := l.TryLock(t.Context()); !errors.Is(err, stile.ErrInvalid) {
			t.Errorf("a client's owner that is too long: %v, want ErrInvalid", err)
		}
	}
	lease, err := l.With(long).WithOnly(stile.LockOptions{}).TryLock(t.Context())
	if err != nil {
		t.Fatalf("an owner that was too long and was set back: %v", err)
	}
	defer func() { _ = lease.Unlock() }()
	if _, err := l.WithOnly(stile.LockOptions{}).TryLock(lease.Context()); !errors.Is(err, stile.ErrReentrant) {
		t.Errorf("re-entrant was set back, and then: %v, want ErrReentrant", err)
	}
	if _, err := stile.Join(locks.Mutex("b"), l.With(long)).TryLock(t.Context()); !errors.Is(err, stile.ErrInvalid) {
		t.Errorf("a part that can never be held: %v, want ErrInvalid", err)
	}
	if q, err := locks.Show(t.Context(), "b"); err != nil || len(q.Claims) > 0 {
		t.Errorf("the other part: %+v, %v; want no claim", q.Claims, err)
	}
}
