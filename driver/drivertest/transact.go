package drivertest

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
)

// Transactions are a database's transactions, which can lock names. They share a number, which is 0 at first.
type Transactions struct {
	// Levels are the database's isolation levels, by the store's names for them, each with what a transaction reads at it.
	Levels map[string]Reads

	// Begin begins a transaction on a connection of its own. The suite ends the transaction.
	Begin func(level string) (Transaction, error)

	// Stale is the error of a lock that came too late: the transaction would go on to read old data.
	Stale error

	// Claims says that claims of the store and transactions keep each other out. If not, they know nothing of each other.
	Claims bool
}

// A Transaction is one that has not ended.
type Transaction interface {
	Lock(ctx context.Context, name string) error
	Read(ctx context.Context) (int64, error) // the number
	Write(ctx context.Context, number int64) error
	Waits() bool // whether it waits for a lock now
	Commit(ctx context.Context) error
	Rollback() // does nothing if it has ended
	Kill()     // the server ends its connection
}

// Reads says what a transaction reads at an isolation level.
type Reads int

const (
	ReadsLatest   Reads = iota // the last commit
	ReadsSnapshot              // the state at its first read, so a later lock may be stale
	ReadsAtBegin               // the state at its begin, so a lock that had to wait may be stale
	ReadsLocked                // the last commit, and nobody writes there until it ends
	ReadsRefused               // a lock is refused at once
)

var transactionCases = []Case{{
	Name: "LockTx",
	Sentence: "A transaction that has locked a name keeps others out until it ends, and reads what the last one has written; " +
		"if not, it is told that it is stale.",
	check: func(r *run) {
		if r.store.Transactions == nil {
			return
		}
		x := &transactions{run: r, Transactions: r.store.Transactions(r)}
		for level, reads := range x.Levels {
			if x.level, x.reads = level, reads; reads == ReadsRefused {
				x.refused()
				continue
			}
			for _, p := range []pair{
				{},
				{known: true},
				{known: true, ends: rolledBack},
				{known: true, ends: killed},
				{late: true},
				{known: true, late: true},
				{known: true, late: true, ends: rolledBack},
			} {
				x.follows(p)
			}
			x.many()
			x.beside()
		}
	},
}}

// transactions are the run on one isolation level.
type transactions struct {
	*run
	*Transactions
	level string
	reads Reads
}

// A closing is the end of the transaction that has the lock.
type closing int

const (
	committed closing = iota
	rolledBack
	killed
)

var closings = map[closing]string{committed: "it is committed", rolledBack: "it is rolled back", killed: "its connection ends"}

// A pair is two transactions that lock one name. The first of them writes.
type pair struct {
	known bool // the name was locked before
	late  bool // the second transaction reads before it locks
	ends  closing
}

func (x *transactions) begin() Transaction {
	x.Helper()
	return x.beginAt(x.level)
}

func (x *transactions) beginAt(level string) Transaction {
	x.Helper()
	tx, err := x.Begin(level)
	if err != nil {
		x.Fatalf("%s: begin = %v; want nil", level, err)
	}
	x.Cleanup(tx.Rollback)
	return tx
}

// locks locks a name that is free.
func (x *transactions) locks(tx Transaction, name string) {
	x.Helper()
	if err := tx.Lock(x.ctx, name); err != nil {
		x.Fatalf("%s: the lock of a name that nobody has = %v; want nil", x.level, err)
	}
}

func (x *transactions) commit(tx Transaction) {
	x.Helper()
	if err := tx.Commit(x.ctx); err != nil {
		x.Fatalf("%s: commit = %v; want nil", x.level, err)
	}
}

func (x *transactions) number(tx Transaction) int64 {
	x.Helper()
	n, err := tx.Read(x.ctx)
	if err != nil {
		x.Fatalf("%s: read = %v; want nil", x.level, err)
	}
	return n
}

func (x *transactions) write(tx Transaction, n int64) {
	x.Helper()
	if err := tx.Write(x.ctx, n); err != nil {
		x.Fatalf("%s: write = %v; want nil", x.level, err)
	}
}

// waiting lets a transaction lock a name that is taken, and returns the result. With mayBeStale, the error may come at once:
// a server need not wait for changes that the transaction could not see.
func (x *transactions) waiting(tx Transaction, name string, mayBeStale bool) <-chan error {
	x.Helper()
	told := make(chan error, 1)
	go func() { told <- tx.Lock(x.ctx, name) }()
	x.until(recovers, "a transaction waits, or is told something", func() bool { return tx.Waits() || len(told) > 0 })
	if len(told) > 0 {
		err := <-told
		if !mayBeStale || !errors.Is(err, x.Stale) {
			x.Fatalf("%s: the lock of a name that is taken = %v; want that it waits", x.level, err)
		}
		told <- err
	}
	return told
}

// follows lets the second transaction wait for the first.
func (x *transactions) follows(p pair) {
	if p.late && x.reads != ReadsLatest && x.reads != ReadsSnapshot {
		return // it has read when it began, or keeps the first one from writing
	}
	name := x.name + "/" + rand.Text()
	if p.known {
		before := x.begin()
		x.locks(before, name)
		x.commit(before)
	}
	first, second, other := x.begin(), x.begin(), x.begin()
	x.locks(first, name)
	x.locks(first, name) // again is no wait
	x.locks(other, name+"/other")
	other.Rollback()
	if p.late {
		x.number(second)
	}
	n := x.number(first)
	x.write(first, n+1)
	mayBeStale := x.reads == ReadsAtBegin || x.reads == ReadsSnapshot && p.late
	told := x.waiting(second, name, mayBeStale)
	switch p.ends {
	case committed:
		x.commit(first)
		n++
	case rolledBack:
		first.Rollback()
	case killed:
		first.Kill()
	}
	err := <-told
	if errors.Is(err, x.Stale) && mayBeStale {
		second.Rollback()
		second = x.begin()
		err = second.Lock(x.ctx, name)
	}
	if err != nil {
		x.Fatalf("%s: the lock after another transaction, known before %v, read before %v, when %s = %v; want nil%s",
			x.level, p.known, p.late, closings[p.ends], err, map[bool]string{true: ", or that it is stale"}[mayBeStale])
	}
	if got := x.number(second); got != n {
		x.Fatalf("%s: with the lock, known before %v, read before %v, when %s, the number is %d; want %d",
			x.level, p.known, p.late, closings[p.ends], got, n)
	}
	x.commit(second)
}

// many lets transactions increment the number at once. No increment may be lost.
func (x *transactions) many() {
	const workers, rounds = 6, 3
	name := x.name + "/" + rand.Text()
	before := x.begin()
	x.locks(before, name)
	n := x.number(before)
	x.commit(before)
	add := func() error {
		for {
			tx, err := x.Begin(x.level)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			err = tx.Lock(x.ctx, name)
			if x.reads == ReadsAtBegin && errors.Is(err, x.Stale) {
				tx.Rollback()
				continue
			}
			var n int64
			if err == nil {
				n, err = tx.Read(x.ctx)
			}
			if err == nil {
				err = tx.Write(x.ctx, n+1)
			}
			if err == nil {
				err = tx.Commit(x.ctx)
			}
			return err
		}
	}
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range rounds {
				if err := add(); err != nil {
					x.Errorf("%s: one of many that lock, read, write and commit: %v; want nil", x.level, err)
				}
			}
		})
	}
	all.Wait()
	after := x.begin()
	defer after.Rollback()
	if got := x.number(after); got != n+workers*rounds {
		x.Errorf("%s: many that have the lock one after the other add %d; want %d", x.level, got-n, workers*rounds)
	}
}

// beside checks whether transactions and claims keep each other out.
func (x *transactions) beside() {
	held := x.claim()
	held.Name += "/" + rand.Text()
	held.Ticket = x.holds(x.a, held).Ticket
	tx := x.begin()
	defer tx.Rollback()
	if !x.Claims {
		ctx, cancel := context.WithTimeout(x.ctx, recovers)
		defer cancel()
		if err := tx.Lock(ctx, held.Name); err != nil {
			x.Fatalf("%s: the lock beside a claim, of which transactions know nothing = %v; want nil", x.level, err)
		}
		x.commit(tx)
		if err := x.run.renew(x.a, held).Err; err != nil {
			x.Errorf("%s: renewal of a claim beside a transaction = %v; want nil", x.level, err)
		}
		x.leave(x.a, held)
		return
	}
	told := x.waiting(tx, held.Name, false)
	x.leave(x.a, held)
	if err := <-told; err != nil {
		x.Fatalf("%s: the lock after a claim = %v; want nil", x.level, err)
	}
	try, next := x.claim(), x.claim()
	try.Name, try.Try, next.Name = held.Name, true, held.Name
	x.waits(x.b, try)
	next.Ticket = x.waits(x.b, next).Ticket
	turned := make(chan error, 1)
	go func() { _, err := x.turn(x.ctx, x.b, next); turned <- err }()
	x.commit(tx)
	if err := <-turned; err != nil {
		x.Fatalf("%s: the claim after a transaction: %v; want it to hold", x.level, err)
	}
	x.leave(x.b, next)
}

// refused lets a transaction ask for a lock at a level that refuses locks, also while another transaction has it.
func (x *transactions) refused() {
	for level, reads := range x.Levels {
		if reads == ReadsRefused {
			continue
		}
		first := x.beginAt(level)
		x.locks(first, x.name)
		second := x.begin()
		ctx, cancel := context.WithTimeout(x.ctx, recovers)
		if err := second.Lock(ctx, x.name); err == nil || ctx.Err() != nil {
			x.Errorf("%s: lock = %v; want that it is refused at once", x.level, err)
		}
		cancel()
		second.Rollback()
		first.Rollback()
	}
}
