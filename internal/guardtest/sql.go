package guardtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/guard"
)

// A Database is one that guards are tried on. It has no tables with the names that the tests use.
type Database struct {
	*sql.DB
	Dialect guard.Dialect

	// Begin begins a transaction by another client than database/sql, and returns what ends it. Nil means database/sql.
	Begin func(ctx context.Context) (tx guard.Tx, end func(commit bool) error, err error)
}

// begin begins a transaction that is rolled back with the test, unless it was ended before.
func (d *Database) begin(t *testing.T) (tx guard.Tx, end func(commit bool)) {
	t.Helper()
	begin := d.Begin
	if begin == nil {
		begin = func(ctx context.Context) (guard.Tx, func(bool) error, error) {
			tx, err := d.BeginTx(ctx, nil)
			return guard.SQL(tx), func(commit bool) error {
				if commit {
					return tx.Commit()
				}
				return tx.Rollback()
			}, err
		}
	}
	tx, finish, err := begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	once := sync.Once{}
	end = func(commit bool) {
		once.Do(func() {
			// The connection of one that was cancelled is closed, so that it cannot be rolled back in other words.
			if err := finish(commit); err != nil && commit {
				t.Errorf("commit: %v", err)
			}
		})
	}
	t.Cleanup(func() { end(false) })
	return tx, end
}

func (d *Database) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := d.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// A rail is the interface that [guard.Table] and [guard.Column] share, for one resource of the tests.
type rail struct {
	raise, check func(ctx context.Context, tx guard.Tx, token int64) error
}

// SQL runs the tests of [guard.Table] and [guard.Column].
func SQL(t *testing.T, d *Database) {
	t.Run("creation by many", func(t *testing.T) { d.creation(t) })
	table, err := guard.NewTable(d.Dialect, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Create(t.Context(), d.DB); err != nil {
		t.Fatal(err)
	}
	column, err := guard.NewColumn(d.Dialect, "account", "id", "fence")
	if err != nil {
		t.Fatal(err)
	}
	d.exec(t, "CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL, fence bigint)")
	for id := range 10 {
		d.exec(t, fmt.Sprintf("INSERT INTO account (id, balance) VALUES (%d, 100)", id))
	}
	t.Run("table", func(t *testing.T) {
		t.Run("marks", func(t *testing.T) { Marks(t, table.Marks(d.DB)) })
		d.rails(t, func(i int) rail {
			name := fmt.Sprintf("rail/%d", i)
			return rail{
				func(ctx context.Context, tx guard.Tx, token int64) error { return table.Raise(ctx, tx, name, token) },
				func(ctx context.Context, tx guard.Tx, token int64) error { return table.Check(ctx, tx, name, token) },
			}
		})
		t.Run("bad input", func(t *testing.T) {
			tx, _ := d.begin(t)
			for _, name := range BadNames {
				if err := table.Raise(t.Context(), tx, name, 1); !errors.Is(err, guard.ErrInvalid) {
					t.Errorf("raise %q: %v, want ErrInvalid", name, err)
				}
				if err := table.Check(t.Context(), tx, name, 1); !errors.Is(err, guard.ErrInvalid) {
					t.Errorf("check %q: %v, want ErrInvalid", name, err)
				}
			}
		})
	})
	t.Run("column", func(t *testing.T) {
		d.rails(t, func(i int) rail {
			return rail{
				func(ctx context.Context, tx guard.Tx, token int64) error { return column.Raise(ctx, tx, i, token) },
				func(ctx context.Context, tx guard.Tx, token int64) error { return column.Check(ctx, tx, i, token) },
			}
		})
		t.Run("no such row", func(t *testing.T) {
			tx, _ := d.begin(t)
			if err := column.Raise(t.Context(), tx, 99, 1); !errors.Is(err, guard.ErrNoRow) {
				t.Errorf("raise = %v, want ErrNoRow", err)
			}
			if err := column.Check(t.Context(), tx, 99, 1); !errors.Is(err, guard.ErrNoRow) {
				t.Errorf("check = %v, want ErrNoRow", err)
			}
		})
	})
	t.Run("writes", func(t *testing.T) { d.writes(t, table, column) })
}

// creation lets many make one table at once.
func (d *Database) creation(t *testing.T) {
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			table, err := guard.NewTable(d.Dialect, "guard_of_many")
			if err == nil {
				err = table.Create(context.Background(), d.DB)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// blockedFor is how long a raise must wait for another's transaction to be believed that it waits.
const blockedFor = 100 * time.Millisecond

// rails runs the tests of raise and check in transactions, each on its own one of ten resources without a mark.
func (d *Database) rails(t *testing.T, resource func(i int) rail) {
	within := func(t *testing.T, commit bool, f func(tx guard.Tx)) {
		t.Helper()
		tx, end := d.begin(t)
		f(tx)
		end(commit)
	}
	is := func(t *testing.T, what string, got, want error) {
		t.Helper()
		if !errors.Is(got, want) {
			t.Errorf("%s = %v, want %v", what, got, want)
		}
	}
	t.Run("rise, repeat, refuse", func(t *testing.T) {
		r := resource(0)
		for i, token := range Tokens {
			within(t, true, func(tx guard.Tx) {
				is(t, "raise", r.raise(t.Context(), tx, token), nil)
				is(t, "raise again", r.raise(t.Context(), tx, token), nil)
				is(t, "check", r.check(t.Context(), tx, token), nil)
			})
			for _, lower := range Tokens[:i] {
				within(t, false, func(tx guard.Tx) {
					err := r.raise(t.Context(), tx, lower)
					stale, ok := errors.AsType[*guard.StaleError](err)
					if !ok || stale.Token != lower || stale.Newer != token {
						t.Errorf("raise %d after %d = %v, want a StaleError with both", lower, token, err)
					}
					is(t, "check", r.check(t.Context(), tx, lower), guard.ErrStale)
				})
			}
		}
	})
	t.Run("a refused raise changes nothing", func(t *testing.T) {
		r := resource(1)
		within(t, true, func(tx guard.Tx) { is(t, "raise", r.raise(t.Context(), tx, 5), nil) })
		within(t, true, func(tx guard.Tx) { is(t, "raise", r.raise(t.Context(), tx, 4), guard.ErrStale) })
		within(t, true, func(tx guard.Tx) { is(t, "check", r.check(t.Context(), tx, 5), nil) })
	})
	t.Run("check needs a raise", func(t *testing.T) {
		r := resource(2)
		within(t, false, func(tx guard.Tx) { is(t, "check", r.check(t.Context(), tx, 5), guard.ErrNotRaised) })
		within(t, true, func(tx guard.Tx) { is(t, "raise", r.raise(t.Context(), tx, 4), nil) })
		within(t, false, func(tx guard.Tx) { is(t, "check", r.check(t.Context(), tx, 5), guard.ErrNotRaised) })
	})
	t.Run("a raise that is rolled back is none", func(t *testing.T) {
		r := resource(3)
		within(t, false, func(tx guard.Tx) { is(t, "raise", r.raise(t.Context(), tx, 9), nil) })
		within(t, true, func(tx guard.Tx) { is(t, "lower raise", r.raise(t.Context(), tx, 1), nil) })
		within(t, false, func(tx guard.Tx) { is(t, "check", r.check(t.Context(), tx, 9), guard.ErrNotRaised) })
	})
	t.Run("no token", func(t *testing.T) {
		r := resource(4)
		for _, token := range []int64{0, -1, -1 << 63} {
			within(t, false, func(tx guard.Tx) {
				is(t, "raise", r.raise(t.Context(), tx, token), guard.ErrNoToken)
				is(t, "check", r.check(t.Context(), tx, token), guard.ErrNoToken)
			})
		}
	})
	for i, what := range []string{"raise", "check"} {
		t.Run("after a "+what+" nobody raises until the end", func(t *testing.T) {
			r := resource(5 + i)
			within(t, true, func(tx guard.Tx) { is(t, "raise", r.raise(t.Context(), tx, 1), nil) })
			first, end := d.begin(t)
			if what == "raise" {
				is(t, what, r.raise(t.Context(), first, 1), nil)
			} else {
				is(t, what, r.check(t.Context(), first, 1), nil)
			}
			within(t, false, func(tx guard.Tx) {
				ctx, cancel := context.WithTimeout(t.Context(), blockedFor)
				defer cancel()
				if err := r.raise(ctx, tx, 2); err == nil || errors.Is(err, guard.ErrStale) {
					t.Errorf("a raise beside an open transaction = %v, want that it waits", err)
				}
			})
			end(true)
			within(t, true, func(tx guard.Tx) { is(t, "raise", r.raise(t.Context(), tx, 2), nil) })
		})
	}
}

// A doing runs work in a transaction of its own, under a guard or not.
type doing func(token int64, work func(tx *sql.Tx) error) error

// account is the balance of one row, which is read and written in a transaction each.
func (d *Database) account(id int, do doing) Account {
	return Account{
		Read: func(ctx context.Context, token int64) (balance int, err error) {
			err = do(token, func(tx *sql.Tx) error {
				return tx.QueryRowContext(ctx, fmt.Sprintf("SELECT balance FROM account WHERE id = %d", id)).Scan(&balance)
			})
			return balance, err
		},
		Write: func(ctx context.Context, token int64, balance int) error {
			return do(token, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE account SET balance = %d WHERE id = %d", balance, id))
				return err
			})
		},
	}
}

// balance reads the balance of a row beside everybody.
func (d *Database) balance(t *testing.T, id int) (n int) {
	t.Helper()
	if err := d.QueryRowContext(t.Context(),
		fmt.Sprintf("SELECT balance FROM account WHERE id = %d", id)).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// writes lets holders write late, and many at once, to a row without a guard, to one that a table guards, and to one that a
// column guards.
func (d *Database) writes(t *testing.T, table *guard.Table, column *guard.Column) {
	plain := func(_ int64, work func(tx *sql.Tx) error) error {
		tx, err := d.BeginTx(t.Context(), nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // without effect after the commit
		if err := work(tx); err != nil {
			return err
		}
		return tx.Commit()
	}
	byTable := func(id int) doing {
		return func(token int64, work func(tx *sql.Tx) error) error {
			return table.Do(t.Context(), d.DB, fmt.Sprintf("accounts/%d", id), token, work)
		}
	}
	byColumn := func(id int) doing {
		return func(token int64, work func(tx *sql.Tx) error) error {
			return column.Do(t.Context(), d.DB, id, token, work)
		}
	}
	for _, tt := range []struct {
		name string
		do   func(id int) doing
	}{{"table", byTable}, {"column", byColumn}} {
		for _, id := range []int{6, 7, 8, 9} {
			d.exec(t, fmt.Sprintf("UPDATE account SET fence = NULL, balance = 100 WHERE id = %d", id))
		}
		if d.Dialect != guard.SQLite { // its writers take turns anyway, and a second one gives up
			t.Run("at work, "+tt.name, func(t *testing.T) {
				do := tt.do(6)
				AtWork(t,
					func(ctx context.Context, token int64) error { return do(token, func(*sql.Tx) error { return nil }) },
					func(token int64, work func() error) error { return do(token, func(*sql.Tx) error { return work() }) })
			})
		}
		t.Run("late write, "+tt.name, func(t *testing.T) {
			LateIsRefused(t, d.account(7, plain), d.account(8, tt.do(8)), func(guarded bool) int {
				if guarded {
					return d.balance(t, 8)
				}
				return d.balance(t, 7)
			})
		})
		t.Run("many write, "+tt.name, func(t *testing.T) {
			Many(t, d.account(9, tt.do(9)), func() int { return d.balance(t, 9) })
		})
	}
}
