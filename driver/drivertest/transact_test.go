package drivertest

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/memory"
)

// TestLockTxIsCaught checks that the case fails for transactions that lock nothing, lock another thing than claims do,
// report no error or a number when they are stale, or wait instead of refusing.
func TestLockTxIsCaught(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bug    string
		claims bool // the store declares that transactions and claims keep each other out
		own    bool // transactions lock in a store of their own
		caught bool
	}{
		"as it should, with claims":     {claims: true},
		"as it should, beside claims":   {own: true},
		"transactions lock nothing":     {own: true, bug: "locks nothing", caught: true},
		"they lock beside claims":       {claims: true, own: true, caught: true},
		"they are stale and say nought": {own: true, bug: "quiet", caught: true},
		"they are stale and say 1020":   {own: true, bug: "number", caught: true},
		"they lock where they may not":  {own: true, bug: "allowed", caught: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memory.NewStore()
			s := Store{Open: func(testing.TB) driver.Driver { return store.Driver() }}
			s.Transactions = func(t testing.TB) *Transactions {
				db := &numbers{bug: test.bug, locks: store.Driver()}
				if test.own {
					db.locks = memory.NewStore().Driver()
				}
				t.Cleanup(func() { db.locks.Close() })
				return &Transactions{
					Levels: map[string]Reads{
						"latest": ReadsLatest, "snapshot": ReadsSnapshot, "begin": ReadsAtBegin, "refused": ReadsRefused,
					},
					Begin: db.begin, Stale: errStale, Claims: test.claims,
				}
			}
			finds(t, "LockTx", s, test.caught)
		})
	}
}

var errStale = errors.New("stale")

// numbers is a database with one number, whose locks are claims.
type numbers struct {
	bug   string
	locks driver.Driver

	mu     sync.Mutex // guards what follows, and the number of each transaction
	number int64
}

type numbersTx struct {
	db            *numbers
	level         string
	seen, written *int64
	held          []*driver.Claim
	waits, over   bool
}

func (db *numbers) begin(level string) (Transaction, error) {
	tx := &numbersTx{db: db, level: level}
	if level == "begin" {
		_, _ = tx.Read(context.Background())
	}
	return tx, nil
}

func (x *numbersTx) waiting(is bool) {
	x.db.mu.Lock()
	defer x.db.mu.Unlock()
	x.waits = is
}

func (x *numbersTx) Waits() bool {
	x.db.mu.Lock()
	defer x.db.mu.Unlock()
	return x.waits
}

func (x *numbersTx) Lock(ctx context.Context, name string) error {
	switch {
	case x.level == "refused" && x.db.bug != "allowed":
		return errors.New("not at this level")
	case x.db.bug == "locks nothing" || slices.ContainsFunc(x.held, func(c *driver.Claim) bool { return c.Name == name }):
		return nil
	}
	c := &driver.Claim{Name: name, ID: rand.Text(), Client: "tx", Weight: driver.All, Capacity: driver.All, TTL: time.Minute, Wait: time.Minute}
	p, err := x.db.locks.Enter(ctx, c)
	c.Ticket = p.Ticket
	for x.waiting(true); err == nil && !p.Holds; {
		p, err = x.db.locks.Await(ctx, c)
	}
	x.waiting(false)
	x.db.mu.Lock()
	defer x.db.mu.Unlock()
	x.held = append(x.held, c)
	if err == nil && x.seen != nil && *x.seen != x.db.number {
		err = map[string]error{"": errStale, "number": errors.New("error 1020")}[x.db.bug]
	}
	return err
}

func (x *numbersTx) Read(context.Context) (int64, error) {
	x.db.mu.Lock()
	defer x.db.mu.Unlock()
	n := x.db.number
	if x.seen != nil {
		n = *x.seen
	}
	if x.level != "latest" {
		x.seen = &n
	}
	return n, nil
}

func (x *numbersTx) Write(_ context.Context, n int64) error {
	x.written = &n
	return nil
}

func (x *numbersTx) Commit(context.Context) error {
	x.db.mu.Lock()
	if x.written != nil && !x.over {
		x.db.number = *x.written
	}
	x.db.mu.Unlock()
	x.Rollback()
	return nil
}

func (x *numbersTx) Rollback() {
	x.db.mu.Lock()
	x.over = true
	held := x.held
	x.held = nil
	x.db.mu.Unlock()
	for _, c := range held {
		_ = x.db.locks.Leave(context.Background(), &driver.Release{Claim: c})
	}
}

func (x *numbersTx) Kill() { x.Rollback() }
