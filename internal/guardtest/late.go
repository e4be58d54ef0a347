// Package guardtest has the tests that every guard of package guard must pass, for the modules that have the databases and
// servers.
package guardtest

import (
	"context"
	"errors"
	"testing"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/memory"
)

// An Account is a balance that a lock protects. Each holder reads it, and then writes it.
type Account struct {
	Read  func(ctx context.Context, token int64) (int, error)
	Write func(ctx context.Context, token int64, balance int) error
}

// Late runs two programs that each add to a balance of 100 under one lock. The first, which adds 10, is paused after it
// read; its lock is lost meanwhile, and the second, which adds 50, comes and goes. Then the first writes, and does not
// look whether it holds the lock. The result is its error.
func Late(t *testing.T, a Account) error {
	t.Helper()
	ctx := t.Context()
	locks, err := stile.New(memory.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	lock := func() *stile.Lease {
		lease, err := locks.Mutex("accounts/ann").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	read := func(token int64) int {
		balance, err := a.Read(ctx, token)
		if err != nil {
			t.Fatalf("token %d reads: %v", token, err)
		}
		return balance
	}

	paused := lock()
	balance := read(paused.Token())
	if _, err := locks.Break(ctx, "accounts/ann", paused.Token()); err != nil {
		t.Fatal(err)
	}
	other := lock()
	if err := a.Write(ctx, other.Token(), read(other.Token())+50); err != nil {
		t.Fatalf("the holder's write: %v", err)
	}
	if err := other.Unlock(); err != nil {
		t.Fatal(err)
	}
	return a.Write(ctx, paused.Token(), balance+10)
}

// LateIsRefused runs [Late] on an account without a guard, which it must corrupt, and on one with a guard, which it must
// not. The balance of each is asked for when it is over.
func LateIsRefused(t *testing.T, plain, guarded Account, balance func(guarded bool) int) {
	t.Helper()
	if err := Late(t, plain); err != nil {
		t.Errorf("without a guard, the late write = %v; want it to go through, or the test shows nothing", err)
	}
	if got := balance(false); got != 110 {
		t.Errorf("without a guard, the balance is %d; want 110, in which the other's 50 are lost", got)
	}
	if err := Late(t, guarded); !errors.Is(err, guard.ErrStale) {
		t.Errorf("with a guard, the late write = %v, want ErrStale", err)
	}
	if got := balance(true); got != 150 {
		t.Errorf("with a guard, the balance is %d; want 150", got)
	}
}
