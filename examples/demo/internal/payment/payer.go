//go:build unix

package payment

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/examples/demo/internal/store"
	"github.com/stilelock/stile/examples/demo/internal/verb"
	"github.com/stilelock/stile/guard"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/exit"
)

const (
	payerName   = "payer"
	ordererName = "orderer"
)

// A process's reports, beside demo.DidAsk, demo.DidHalt and demo.DidLose.
const (
	didCall = "callback" // an order process says that an order was paid for
	didPay  = "paid"     // it charged the order
	didKnow = "known"    // the order was charged before
)

// Orderer is one order process: it calls back for every order.
var Orderer = verb.Role{Name: ordererName, Count: 1, Run: func(_ context.Context, args []string) error {
	orders, err := strconv.Atoi(args[0])
	if err != nil {
		return exit.Usage("orders %q is not a number", args[0])
	}
	for i := range orders {
		if err := (&demo.Notice{What: didCall, Order: i + 1}).Send(); err != nil {
			return err
		}
	}
	return nil
}}

// A payWay is how a payment process keeps others from an order.
type payWay string

const (
	payPlain   payWay = "plain"   // by a lock, or by nothing
	payGuarded payWay = "guarded" // by a lock, and the order is its own guard
	payInTx    payWay = "tx"      // by a lock in the transaction that charges the order
)

// A payer is a payment process. It gets the numbers of orders by stdin, a line each, and reports the result of each.
type payer struct {
	data  *shopDB
	way   payWay
	names string        // of the locks, without the order
	locks *stile.Client // nil without a lock
	ttl   time.Duration
	in    *bufio.Scanner
}

// Payer is a payment process, with the arguments PLACE, NAMES, TTL and WAY. The place is a file or, in a database, the
// beginning of the tables' names.
var Payer = verb.Role{Name: payerName, Count: 4, Run: beginPayer}

func beginPayer(ctx context.Context, args []string) error {
	ttl, err := time.ParseDuration(args[2])
	if err != nil {
		return exit.Usage("TTL %q: %w", args[2], err)
	}
	p := &payer{names: args[1], ttl: ttl, way: payWay(args[3]), in: bufio.NewScanner(os.Stdin)}
	if p.data, err = openShopDB(os.Getenv(demo.DataVariable), args[0], p.way == payGuarded); err != nil {
		return err
	}
	defer p.data.close()
	if p.names != "" && p.way != payInTx {
		if p.locks, err = store.Locks(ctx, ttl); err != nil {
			return err
		}
		defer p.locks.Close()
	}
	return p.work(ctx)
}

func (p *payer) work(ctx context.Context) error {
	if err := (&demo.Notice{What: demo.DidBegin}).Send(); err != nil {
		return err
	}
	for p.in.Scan() {
		order, err := strconv.Atoi(p.in.Text())
		if err != nil {
			return fmt.Errorf("%q is not the number of an order", p.in.Text())
		}
		r, err := p.pay(ctx, order)
		if err != nil {
			return err
		}
		if err := r.Send(); err != nil {
			return err
		}
	}
	return p.in.Err()
}

// pay handles one callback, under the lock of its order.
func (p *payer) pay(ctx context.Context, order int) (*demo.Notice, error) {
	r := &demo.Notice{Order: order}
	if p.names == "" {
		return r, p.charge(ctx, r)
	}
	ctx, cancel := demo.Patiently(ctx, p.ttl, fmt.Sprintf("the lock of order %d", order))
	defer cancel()
	if p.way == payInTx {
		err := p.chargeInTx(ctx, r)
		for err != nil && p.data.again(err) && ctx.Err() == nil {
			err = p.chargeInTx(ctx, r)
		}
		return r, err
	}
	lock := p.locks.Mutex(orderLock(p.names, order)).With(stile.LockOptions{Reason: "payment"})
	err := lock.Do(ctx, func(ctx context.Context) error { return p.charge(ctx, r) })
	if !errors.Is(err, stile.ErrLost) {
		return r, err
	}
	if r.Lost = true; r.What == "" {
		r.What = demo.DidLose
	}
	return r, nil
}

func orderLock(names string, order int) string { return names + "/order-" + strconv.Itoa(order) }

// charge charges an order that is not paid yet, and puts the result into the notice.
func (p *payer) charge(ctx context.Context, r *demo.Notice) error {
	token := stile.Token(ctx)
	price, paid, err := p.data.look(ctx, r.Order, token)
	switch {
	case errors.Is(err, guard.ErrStale):
		r.What, r.Text = demo.DidHalt, err.Error()
		return nil
	case err != nil:
		return err
	case paid:
		r.What = didKnow
		return nil
	}
	time.Sleep(rand.N(demo.Thinking))
	if ctx.Err() != nil { // the last check of the lease
		return context.Cause(ctx)
	}
	if err := (&demo.Notice{What: demo.DidAsk, Order: r.Order}).Ask(p.in); err != nil {
		return err
	}
	// From here on nothing stops the write, whatever happens to the lease.
	err = p.data.charge(context.WithoutCancel(ctx), r.Order, price, token)
	switch {
	case errors.Is(err, guard.ErrStale):
		r.What, r.Text = demo.DidHalt, err.Error()
		return nil
	case err == nil:
		r.What = didPay
	}
	return err
}

// chargeInTx is charge in one transaction, which holds the lock from its beginning to its end. If this process is stopped,
// the transaction stays open, and nobody else gets the lock. If it is killed, the server undoes the transaction and frees
// the lock.
func (p *payer) chargeInTx(ctx context.Context, r *demo.Notice) error {
	return p.data.step(ctx, func(tx *sql.Tx) error {
		if err := p.data.lockTx(ctx, tx, orderLock(p.names, r.Order)); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		price, paid, err := p.data.read(ctx, tx, r.Order)
		if err != nil {
			return err
		}
		if paid {
			r.What = didKnow
			return nil
		}
		time.Sleep(rand.N(demo.Thinking))
		if err := (&demo.Notice{What: demo.DidAsk, Order: r.Order}).Ask(p.in); err != nil {
			return err
		}
		r.What = didPay
		return p.data.take(ctx, tx, r.Order, price)
	})
}
