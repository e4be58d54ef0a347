package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/store/memory"
)

// deposit adds to the balance in a file, under the lock that protects it. It is paused between reading and writing.
func deposit(ctx context.Context, locks *stile.Client, path string, amount int, pause func()) error {
	return locks.Mutex("balance").Do(ctx, func(ctx context.Context) error {
		f, err := guard.RaiseFile(ctx, path, stile.Token(ctx), nil)
		if err != nil {
			return err
		}
		text, err := f.Read(ctx)
		if err != nil {
			return err
		}
		balance, err := strconv.Atoi(string(text))
		if err != nil {
			return err
		}
		pause()
		return f.Write(context.WithoutCancel(ctx), []byte(strconv.Itoa(balance+amount)))
	})
}

// depositUnguarded does the same without asking the file.
func depositUnguarded(ctx context.Context, locks *stile.Client, path string, amount int, pause func()) error {
	return locks.Mutex("balance").Do(ctx, func(ctx context.Context) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		balance, err := strconv.Atoi(string(text))
		if err != nil {
			return err
		}
		pause()
		return os.WriteFile(path, []byte(strconv.Itoa(balance+amount)), 0o600)
	})
}

// A program is paused while it holds the lock, until it loses the lock. Another program adds 50 to the balance. Then the
// first goes on, and writes a result that it computed from the former balance.
func ExampleRaiseFile() {
	ctx := context.Background()
	locks, err := stile.New(memory.New(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "balance")

	for _, program := range []struct {
		name    string
		deposit func(ctx context.Context, locks *stile.Client, path string, amount int, pause func()) error
	}{{"without a guard", depositUnguarded}, {"with a guard", deposit}} {
		if err := os.WriteFile(path, []byte("100"), 0o600); err != nil {
			log.Fatal(err)
		}
		err := program.deposit(ctx, locks, path, 10, func() {
			// The pause: the lock is taken from the holder, as the store does when a lease has run out.
			if _, err := locks.Break(ctx, "balance", stile.BreakOptions{Head: true}); err != nil {
				log.Fatal(err)
			}
			if err := program.deposit(ctx, locks, path, 50, func() {}); err != nil {
				log.Fatal(err)
			}
		})
		text, readErr := os.ReadFile(path)
		if readErr != nil {
			log.Fatal(readErr)
		}
		fmt.Printf("%s: the balance is %s; the late write was refused: %v\n", program.name, text, errors.Is(err, guard.ErrStale))
	}
	// Output:
	// without a guard: the balance is 110; the late write was refused: false
	// with a guard: the balance is 150; the late write was refused: true
}
