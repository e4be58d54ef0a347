package gooselock

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/pressly/goose/v3/lock/locktesting"
	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// machines returns a function that makes clients of one store.
func machines(t *testing.T) func() *stile.Client {
	store := memory.NewStore()
	return func() *stile.Client {
		c, err := stile.New(store.Driver(), &stile.Options{LockOptions: stile.LockOptions{TTL: 9 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

// database opens a database in a file.
func database(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

var files = fstest.MapFS{
	"1_orders.sql": {Data: []byte("-- +goose Up\nCREATE TABLE orders (id INTEGER PRIMARY KEY);\n")},
	"2_paid.sql":   {Data: []byte("-- +goose Up\nALTER TABLE orders ADD COLUMN paid INTEGER;\n")},
}

// These are goose's own tests of lockers.
func TestGoose(t *testing.T) {
	t.Run("providers", func(t *testing.T) {
		machine, file := machines(t), filepath.Join(t.TempDir(), "shop.db")
		locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
			p, err := goose.NewProvider(goose.DialectSQLite3, database(t, file+"?_pragma=busy_timeout(10000)"), files,
				goose.WithLocker(New(machine(), "shop")))
			if err != nil {
				t.Fatal(err)
			}
			return p
		})
	})
	t.Run("lockers", func(t *testing.T) {
		machine := machines(t)
		locktesting.TestConcurrentLocking(t, nil, func(*testing.T) lock.Locker { return New(machine(), "shop") }, 4*time.Second)
	})
}

// A migration whose lease is lost is undone, and goose says why.
func TestLost(t *testing.T) {
	client, db := machines(t)(), database(t, filepath.Join(t.TempDir(), "shop.db"))
	locker := New(client, "shop")
	lose := goose.NewGoMigration(1, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "CREATE TABLE orders (id INTEGER PRIMARY KEY)"); err != nil {
			return err
		}
		if _, err := client.Break(ctx, "shop", stile.BreakOptions{Head: true}); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}}, nil)
	never := goose.NewGoMigration(2, &goose.GoFunc{RunTx: func(context.Context, *sql.Tx) error {
		t.Error("a migration ran without the lease")
		return nil
	}}, nil)
	p, err := goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithLocker(locker), goose.WithGoMigrations(lose, never))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := locker.Context(t.Context())
	defer cancel()
	if _, err := p.Up(ctx); !errors.Is(err, stile.ErrLost) {
		t.Errorf("Up: %v, want %v", err, stile.ErrLost)
	}
	if _, err := db.Exec("SELECT * FROM orders"); err == nil || !strings.Contains(err.Error(), "no such table") {
		t.Errorf("the table of the migration that was undone: %v, want none", err)
	}
	if locker.Lease() != nil {
		t.Error("a lease is there when nothing is locked")
	}
}

// The context of a call that ended before its lease was lost is not cancelled by the loss.
func TestContext(t *testing.T) {
	locker := New(machines(t)(), "shop")
	ctx, cancel := locker.Context(t.Context())
	defer cancel()
	for range 2 {
		if err := locker.Lock(ctx, nil); err != nil {
			t.Fatal(err)
		}
		lease := locker.Lease()
		if lease == nil || lease.Check() != nil || lease.Name() != "shop" {
			t.Errorf("the lease is %v", lease)
		}
		if err := locker.Unlock(ctx, nil); err != nil {
			t.Error(err)
		}
		<-lease.Context().Done()
		if ctx.Err() != nil {
			t.Errorf("the context ended when the lock was released: %v", context.Cause(ctx))
		}
	}
}

// If the client is closed while the lock is held, the lock is lost, and the context of the call ends.
func TestClosedWhileLocked(t *testing.T) {
	client := machines(t)()
	locker := New(client, "shop")
	ctx, cancel := locker.Context(t.Context())
	defer cancel()
	if err := locker.Lock(ctx, nil); err != nil {
		t.Fatal(err)
	}
	client.Close()
	<-ctx.Done()
	for what, err := range map[string]error{"cause": context.Cause(ctx), "unlock": locker.Unlock(ctx, nil)} {
		if !errors.Is(err, stile.ErrLost) || !strings.Contains(err.Error(), stile.ReasonShutdown.String()) {
			t.Errorf("%s: %v, want %v, as the client was closed", what, err, stile.ErrLost)
		}
	}
	if err := locker.Lock(t.Context(), nil); !errors.Is(err, stile.ErrClosed) {
		t.Errorf("lock again: %v, want %v", err, stile.ErrClosed)
	}
}

// An error names the adapter and the lock.
func TestErrors(t *testing.T) {
	machine := machines(t)
	here, there, client := New(machine(), "shop"), machine(), machine()
	client.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := here.Lock(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		got  error
		want error
		text string
	}{
		{"locker of a client that is closed", New(client, "shop").Lock(t.Context(), nil), stile.ErrClosed, `gooselock: stile: lock "shop": `},
		{"context that has ended, locked here", here.Lock(ended, nil), context.Canceled, `gooselock: lock "shop": `},
		{"context that has ended, locked elsewhere", New(there, "shop").Lock(ended, nil), context.Canceled, `gooselock: `},
		{"no name", New(there, "").Lock(t.Context(), nil), stile.ErrInvalid, `gooselock: `},
		{"not locked", New(there, "shop").Unlock(t.Context(), nil), stile.ErrReleased, `gooselock: unlock "shop": it is not locked`},
		{"locked", here.Unlock(ended, nil), nil, ""},
		{"unlocked before", here.Unlock(t.Context(), nil), stile.ErrReleased, `gooselock: unlock "shop": it is not locked`},
	} {
		if !errors.Is(tt.got, tt.want) || tt.got != nil && !strings.HasPrefix(tt.got.Error(), tt.text) {
			t.Errorf("%s: %v, want %v with %q", tt.name, tt.got, tt.want, tt.text)
		}
	}
}
