//go:build unix

package market

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/examples/demo/internal/store"
	"github.com/stilelock/stile/examples/demo/internal/verb"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/histogram"
)

const (
	traderName = "trader"

	mostPrice  = 100
	mostHolds  = 100              // holds that the picture may need, of each trader
	emptyPause = time.Millisecond // before a look for new offers
	firstGrace = 5 * time.Second  // for the first trade with a lock, in a store that is slow
)

// A way is how traders exclude each other.
type way string

// The ways.
const (
	WayWatch  way = "optimistic, WATCH"
	wayCoarse way = "one lock for all"
	wayItem   way = "a lock for each item"
	wayTurns  way = "one process, in turns"
)

// An errand is a trader's task, as a line of JSON.
type errand struct {
	Prefix  string        // of the keys
	Lock    string        // the name of the one lock, and the beginning of the items' locks
	Way     way           //
	Listers []string      // the users for whom this process lists
	Buyers  []string      // and buys
	For     time.Duration // how long
}

// A dealing is the result of an errand, for all users of one process.
type dealing struct {
	Minted         int64 // items that were made
	Listed, Bought int64
	Retries        int64 // transactions that were aborted
	Passed         int64 // offers that were passed over: another buyer had the item, or was about to
	Waits          histogram.Histogram
	Total          time.Duration // of all waits
	Holds          []hold        // the first holds of the one lock
}

// A hold is a time in which somebody held the one lock, in microseconds since 1970; all processes run on one machine.
type hold struct {
	Who      string
	From, To int64
}

func (d *dealing) merge(o *dealing) {
	d.Minted += o.Minted
	d.Listed += o.Listed
	d.Bought += o.Bought
	d.Retries += o.Retries
	d.Passed += o.Passed
	d.Total += o.Total
	d.Waits.Merge(&o.Waits)
	d.Holds = append(d.Holds, o.Holds...)
}

// Trader is a process of the demo of the market, with the argument TTL. Its errand comes by stdin.
var Trader = verb.Role{Name: traderName, Count: 1, Run: beginTrader}

func beginTrader(ctx context.Context, args []string) error {
	ttl, err := time.ParseDuration(args[0])
	if err != nil {
		return exit.Usage("TTL %q: %w", args[0], err)
	}
	locks, err := store.Locks(ctx, ttl)
	if err != nil {
		return err
	}
	defer locks.Close()
	data, err := OpenMarket(os.Getenv(demo.DataVariable))
	if err != nil {
		return dataError(err)
	}
	defer data.Close()
	if err := (&demo.Notice{What: demo.DidBegin}).Send(); err != nil {
		return err
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var e errand
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return err
		}
		sum, err := e.run(ctx, locks, data)
		if err != nil {
			return err
		}
		text, err := json.Marshal(sum)
		if err != nil {
			return err
		}
		if err := (&demo.Notice{What: didTrade, Text: string(text)}).Send(); err != nil {
			return err
		}
	}
	return nil
}

// didTrade is the notice of a trader whose errand is done; its text is a dealing.
const didTrade = "traded"

func dataError(err error) error {
	return exit.With(exit.Store, fmt.Errorf("the market's Redis: %w", err))
}

// A trader lists or buys for one user, until the time is over.
type trader struct {
	*errand
	*market
	user  string
	locks *stile.Client
	all   *stile.Lock
	dealing
}

// run lets all users trade at once, each on a connection of its own.
func (e *errand) run(ctx context.Context, locks *stile.Client, data rueidis.Client) (sum dealing, err error) {
	var (
		group sync.WaitGroup
		mu    sync.Mutex
	)
	end := time.Now().Add(e.For)
	begin := func(user string, act func(t *trader, ctx context.Context, end time.Time) error) {
		group.Go(func() {
			db, release := data.Dedicate()
			defer release()
			t := &trader{errand: e, market: &market{db, e.Prefix}, user: user, locks: locks, all: locks.Mutex(e.Lock + "/all")}
			failed := act(t, ctx, end)
			mu.Lock()
			defer mu.Unlock()
			sum.merge(&t.dealing)
			err = errors.Join(err, failed)
		})
	}
	for _, user := range e.Listers {
		begin(user, (*trader).listAll)
	}
	for _, user := range e.Buyers {
		begin(user, (*trader).buyAll)
	}
	group.Wait()
	return sum, err
}

// on reports whether the trader goes on: until the time is over, and with a lock until it has traded once, though not much
// longer.
func (t *trader) on(end time.Time) bool { return time.Now().Before(t.until(end)) }

func (t *trader) until(end time.Time) time.Time {
	if t.Way != WayWatch && t.Listed+t.Bought == 0 {
		return end.Add(firstGrace)
	}
	return end
}

// listAll lists new items until the time is over. With a lock it then lists one more, for a buyer that has bought nothing
// yet: the others buy as fast as all list, and may have left nothing.
func (t *trader) listAll(ctx context.Context, end time.Time) error {
	n := 0
	for ; t.on(end); n++ {
		if err := t.listNext(ctx, end, n); err != nil {
			return err
		}
	}
	if t.Way == WayWatch {
		return nil
	}
	return t.listNext(ctx, end.Add(firstGrace), n)
}

func (t *trader) listNext(ctx context.Context, end time.Time, n int) error {
	item := t.user + "-" + strconv.Itoa(n)
	if err := t.mint(ctx, t.user, item); err != nil {
		return dataError(err)
	}
	t.Minted++
	did, err := t.once(ctx, end, t.itemLock(item),
		func(ctx context.Context) error { return t.list(ctx, t.user, item, 1+rand.Int64N(mostPrice)) })
	if did {
		t.Listed++
	}
	return err
}

// buyAll buys until the time is over.
func (t *trader) buyAll(ctx context.Context, end time.Time) error {
	for begun := time.Now(); t.on(end); {
		did, err := t.buyOne(ctx, end)
		if err != nil {
			return err
		}
		if did {
			t.Bought++
			took := time.Since(begun)
			t.Total += took
			t.Waits.Add(took)
			begun = time.Now()
		}
	}
	return nil
}

func (t *trader) buyOne(ctx context.Context, end time.Time) (bool, error) {
	if t.Way != wayItem {
		return t.once(ctx, end, nil, func(ctx context.Context) error { return t.buyAny(ctx, t.user) })
	}
	o, err := t.browse(ctx)
	if err != nil {
		return t.settle(err)
	}
	return t.once(ctx, end, t.itemLock(o.item), func(ctx context.Context) error { return t.buyThis(ctx, t.user, &o) })
}

func (t *trader) itemLock(item string) *stile.Lock { return t.locks.Mutex(t.Lock + "/item/" + item) }

// once trades once, in the chosen way, and reports whether the trade succeeded.
func (t *trader) once(
	ctx context.Context, end time.Time, item *stile.Lock, trade func(ctx context.Context) error,
) (bool, error) {
	if t.Way == WayWatch {
		return t.settle(trade(ctx))
	}
	lock := t.all
	if t.Way == wayItem {
		lock = item
	}
	within, cancel := context.WithDeadline(ctx, t.until(end))
	defer cancel()
	lease, err := t.take(within, lock)
	switch {
	case errors.Is(err, stile.ErrHeld):
		t.Passed++ // somebody else is about to buy it
		return false, nil
	case err != nil && within.Err() != nil:
		return false, ctx.Err() // the time is over
	case err != nil:
		return false, err
	}
	from := time.Now()
	did, err := t.settle(trade(ctx))
	if t.Way != wayItem && len(t.Holds) < mostHolds {
		t.Holds = append(t.Holds, hold{t.user, from.UnixMicro(), time.Now().UnixMicro()})
	}
	if bad := lease.Unlock(); bad != nil && !errors.Is(bad, stile.ErrLost) {
		err = errors.Join(err, bad)
	}
	return did, err
}

// take waits for the one lock. It does not wait for an item's lock, since there are other items.
func (t *trader) take(ctx context.Context, lock *stile.Lock) (*stile.Lease, error) {
	if t.Way == wayItem {
		return lock.TryLock(ctx)
	}
	return lock.Lock(ctx)
}

// settle counts the result of a trade, and returns unexpected errors.
func (t *trader) settle(err error) (did bool, _ error) {
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, errAborted):
		t.Retries++
	case errors.Is(err, errSold):
		t.Passed++
	case errors.Is(err, errNothing):
		time.Sleep(emptyPause)
	default:
		return false, dataError(err)
	}
	return false, nil
}
