// Package guardtest has the tests that every guard of package guard must pass, for the modules that have the databases and
// servers.
package guardtest

import (
	"context"
	"errors"
	"testing"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/store/memory"
)

// An Account is a balance that a lock protects. Each holder reads it, and then writes it.
type Account struct {
	Read  func(ctx context.Context, token int64) (int, error)
	Write func(ctx context.Context, token int64, balance int) error
}

// A moment is when a holder that was paused writes.
type moment int

const (
	afterOther  moment = iota // the next holder has come and gone
	withinOther               // the next holder has read, and not yet written
)

// late runs two programs that each add to a balance under one lock. The first, which adds 10, is paused after it read; its
// lock is lost meanwhile, and the second, which adds 50, comes. Then the first writes, and does not look whether it holds
// the lock. The result is its error.
func late(t *testing.T, locks *stile.Client, a Account, when moment) error {
	t.Helper()
	ctx := t.Context()
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
	var refused error
	paused := lock()
	balance := read(paused.Token())
	if _, err := locks.Break(ctx, "accounts/ann", stile.BreakOptions{Ticket: paused.Ticket()}); err != nil {
		t.Fatal(err)
	}
	other := lock()
	sum := read(other.Token()) + 50
	if when == withinOther {
		refused = a.Write(ctx, paused.Token(), balance+10)
	}
	if err := a.Write(ctx, other.Token(), sum); err != nil {
		t.Fatalf("the holder's write: %v", err)
	}
	if err := other.Unlock(); err != nil {
		t.Fatal(err)
	}
	if when == afterOther {
		refused = a.Write(ctx, paused.Token(), balance+10)
	}
	return refused
}

// LateIsRefused lets a paused holder write late to two accounts: the write must corrupt the one without a guard, and must
// not corrupt the one with a guard. It writes once after the next holder, and once while that one is at work. Each account
// has a balance of 100, which is read when a holder is done.
func LateIsRefused(t *testing.T, plain, guarded Account, balance func(guarded bool) int) {
	t.Helper()
	locks, err := stile.New(memory.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	for _, tt := range []struct {
		when  moment
		plain int // without a guard
		lost  string
		want  int
	}{
		{afterOther, 110, "the other's 50 are lost", 150},
		{withinOther, 160, "its own 10 are lost, and it does not know", 200},
	} {
		if err := late(t, locks, plain, tt.when); err != nil {
			t.Errorf("without a guard, the late write = %v; want it to go through, or the test shows nothing", err)
		}
		if got := balance(false); got != tt.plain {
			t.Errorf("without a guard, the balance is %d; want %d, in which %s", got, tt.plain, tt.lost)
		}
		if err := late(t, locks, guarded, tt.when); !errors.Is(err, guard.ErrStale) {
			t.Errorf("with a guard, the late write = %v, want ErrStale", err)
		}
		if got := balance(true); got != tt.want {
			t.Errorf("with a guard, the balance is %d; want %d", got, tt.want)
		}
	}
}
