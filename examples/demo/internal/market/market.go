//go:build unix

// Package market is a demo of purchases with three ways to exclude each other.
package market

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/examples/demo/internal/store"
	"github.com/stilelock/stile/examples/demo/internal/verb"
	"github.com/stilelock/stile/internal/demo"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/opening"
	"github.com/stilelock/stile/internal/phrase"
)

const marketLong = `A market in Redis, as in chapter 6.2 of the book Redis in Action: a sorted set of
offers, hashes of funds, and sets of inventories. Listers offer items and buyers buy
them, as often as they can for a fixed time, in four ways:

  optimistic, WATCH       a transaction is tried again if anybody changed the market
  one lock for all        each trade is made under one lock
  a lock for each item    only who wants the same item excludes each other
  one process, in turns   one lock for all, and all trade in one process

The market is in the Redis of --data. The locks are there too, or in the store of --url
or STILE_URL. Exits with 0 if with locks no trade had to be tried again, money and items
are all there and every buyer bought, and without locks trades were tried again;
otherwise with 1.`

const (
	marketFor   = 2 * time.Second
	marketQuick = 200 * time.Millisecond
	marketLeast = 50 * time.Millisecond
	marketMost  = time.Minute
)

// A marketDemo is one run of the demo.
type marketDemo struct {
	demo.Display
	data string
	each time.Duration // how long each cell trades
	ttl  time.Duration
}

// The mixes and ways of the table, as in the book.
var (
	Mixes = []mix{{1, 1}, {5, 1}, {5, 5}}
	Ways  = []way{WayWatch, wayCoarse, wayItem, wayTurns}
)

// A mix is the numbers of listers and buyers.
type mix struct{ Listers, Buyers int }

func (m mix) String() string { return fmt.Sprintf("%d/%d", m.Listers, m.Buyers) }

// A cell is one row of the table: one mix that trades in one way.
type cell struct {
	mix
	way
	dealing
	lost, made int64 // money and items that are missing, or came from nowhere
	idle       int   // buyers who bought nothing
}

// New returns the verb.
func New(s *store.Store) *verb.Verb {
	d := &marketDemo{}
	v := verb.New("market", "Trade in Redis, optimistically and with locks, coarse and fine", marketLong)
	v.Run = func(ctx context.Context, out io.Writer) error {
		if err := d.Begin(out, verb.Terminal(), v.Given); err != nil {
			return err
		}
		if d.Quick && !v.Given("for") {
			d.each = marketQuick
		}
		if err := d.check(); err != nil {
			return err
		}
		return d.run(ctx, s)
	}
	s.Flags(v.Flags)
	d.Flags(v.Flags, "each row of the table for 200ms")
	v.Flags.StringVar(&d.data, "data", "", "the `URL` of the Redis that the market is in, such as redis://localhost")
	v.Flags.DurationVar(&d.each, "for", marketFor, "how long each row of the table trades, from 50ms to 1m")
	return v
}

func (d *marketDemo) check() error {
	switch {
	case d.data == "":
		return exit.Usage("demo market needs --data, the Redis that the market is in; as in: demo market --data redis://localhost")
	case d.each < marketLeast || d.each > marketMost:
		return exit.Usage("--for %v: it must be from %v to %v", d.each, marketLeast, marketMost)
	case d.Quick && d.each > marketQuick:
		return exit.Usage("--for %v: with --quick it must be from %v to %v", d.each, marketLeast, marketQuick)
	}
	a, err := driver.ParseAddress(d.data)
	if err != nil {
		return exit.Usage("--data: %w", err)
	}
	if opening.Hide(a, d.data) {
		store.Warn("data")
	}
	if a.Scheme != "redis" && a.Scheme != "rediss" {
		return exit.Usage("--data %s: the market is kept in Redis, so it must begin with redis:// or rediss://", a)
	}
	if _, err := rueidis.ParseURL(d.data); err != nil {
		return exit.Usage("--data %s: %w", a, err)
	}
	return nil
}

func (d *marketDemo) run(ctx context.Context, s *store.Store) error {
	s.Beside = d.data // the locks are in the same store as the data, as in the book
	setup, err := demo.NewSetup(ctx, s)
	if err != nil {
		return err
	}
	defer setup.Close()
	data, err := OpenMarket(d.data)
	if err != nil {
		return dataError(err)
	}
	defer data.Close()
	if d.ttl, err = setup.Lease(false); err != nil {
		return err
	}
	d.Say("Listers offer items in a market in Redis, and buyers buy them. Each row of the table trades for %v.", d.each)
	d.Say("The locks are kept in %s.", setup.Address)
	if setup.Traits.Fencing == driver.NoFencing {
		d.Say("Caveat: this store gives no tokens, so a guard could not refuse a late write; here nobody writes late.")
	}
	cells, err := d.runMarkets(ctx, setup, data)
	d.Erase()
	if err != nil {
		return err
	}
	if err := d.Draw(d.timeline(cells)); err != nil {
		return err
	}
	if err := d.print(cells); err != nil {
		return err
	}
	return judgeCells(cells)
}

// runMarkets trades in every mix and way.
func (d *marketDemo) runMarkets(ctx context.Context, setup *demo.Setup, data rueidis.Client) (cells []*cell, err error) {
	limit := demo.Limit + time.Duration(len(Mixes)*len(Ways))*2*d.each
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the trades took longer than %v", limit))
	defer cancel()
	within, end := context.WithCancel(ctx)
	c := demo.NewProcesses(setup.URL)
	c.Env = []string{demo.DataVariable + "=" + d.data}
	var left leftover
	defer func() {
		c.Close(within, end)
		left.clear(data) // not before: a living trader would write again
	}()
	most := Mixes[len(Mixes)-1]
	for range most.Listers + most.Buyers {
		if _, err := c.Start(within, traderName, traderName, d.ttl.String()); err != nil {
			return nil, exit.With(exit.Failed, err)
		}
	}
	id := rand.Text()[:8]
	if err = c.Gather(ctx); err == nil {
		cells, err = d.trade(ctx, c, data, id, &left)
	}
	bought := int64(0)
	for _, cell := range cells {
		bought += cell.Bought
	}
	known := fmt.Sprintf("%d of %d rows of the table came to their end, with %s", len(cells), len(Mixes)*len(Ways),
		phrase.Plural(int(bought), "purchase"))
	unknown := fmt.Sprintf("whether Redis still has keys that begin with %s, and %s", marketPrefix(id, ""),
		demo.ClaimsLeft(marketLock(id, 0), d.ttl))
	return cells, demo.HalfDone(err, known, unknown)
}

func marketPrefix(id, cell string) string { return "stile-demo:{" + id + cell + "}:" }
func marketLock(id string, n int) string {
	if n == 0 {
		return "demo/market/" + id
	}
	return "demo/market/" + id + "/" + strconv.Itoa(n)
}

func (d *marketDemo) trade(
	ctx context.Context, c *demo.Processes, data rueidis.Client, id string, left *leftover,
) (cells []*cell, err error) {
	db, release := data.Dedicate()
	defer release()
	for _, m := range Mixes {
		for _, w := range Ways {
			cell := &cell{mix: m, way: w}
			d.Progress("%s %s", m, w)
			n := len(cells) + 1
			market := &market{db, marketPrefix(id, "-"+strconv.Itoa(n))}
			*left = leftover{market.prefix, slices.Concat(users("lister", m.Listers), users("buyer", m.Buyers))}
			e := &errand{Prefix: market.prefix, Lock: marketLock(id, n), Way: w, For: d.each}
			if err := cell.run(ctx, c, market, e); err != nil {
				return cells, fmt.Errorf("%s, %s: %w", m, w, err)
			}
			*left = leftover{}
			cells = append(cells, cell)
		}
	}
	return cells, nil
}

// A leftover is the market of a cell that did not end properly.
type leftover struct {
	prefix string // empty if there is none
	users  []string
}

// clear removes the market, if it can.
func (l *leftover) clear(data rueidis.Client) {
	if l.prefix == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), demo.ClearFor)
	defer cancel()
	db, release := data.Dedicate()
	defer release()
	_ = (&market{db, l.prefix}).clear(ctx, l.users)
}

// run lets the traders trade, and takes stock before and after.
func (c *cell) run(ctx context.Context, processes *demo.Processes, m *market, e *errand) error {
	listers, buyers := users("lister", c.Listers), users("buyer", c.Buyers)
	all := slices.Concat(listers, buyers)
	if err := m.stock(ctx, all); err != nil {
		return dataError(err)
	}
	errands := c.errands(e, listers, buyers)
	for i, e := range errands {
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if err := processes.All[i].Tell(string(text)); err != nil {
			return err
		}
	}
	for range errands {
		h, err := processes.Next(ctx)
		if err != nil {
			return err
		}
		if h.What != didTrade {
			return h.Failure()
		}
		var part dealing
		if err := json.Unmarshal([]byte(h.Text), &part); err != nil {
			return err
		}
		c.merge(&part)
	}
	stock, err := m.count(ctx, listers, buyers)
	if err != nil {
		return dataError(err)
	}
	c.audit(stock, buyers)
	if err := m.clear(ctx, all); err != nil {
		return dataError(err)
	}
	return nil
}

// errands returns the errands of the processes: one process for each user, or one for all.
func (c *cell) errands(e *errand, listers, buyers []string) (list []errand) {
	one := *e
	if c.way == wayTurns {
		one.Listers, one.Buyers = listers, buyers
		return []errand{one}
	}
	for _, user := range listers {
		one.Listers, one.Buyers = []string{user}, nil
		list = append(list, one)
	}
	for _, user := range buyers {
		one.Listers, one.Buyers = nil, []string{user}
		list = append(list, one)
	}
	return list
}

// audit compares the contents of the market with what they must be.
func (c *cell) audit(s stocktaking, buyers []string) {
	money := s.funds - int64(c.Listers+c.Buyers)*startFunds
	items := s.items - c.Minted
	for _, off := range []int64{money, items} {
		c.lost += max(0, -off)
		c.made += max(0, off)
	}
	sum := int64(0)
	for _, name := range buyers {
		sum += s.bought[name]
		if s.bought[name] == 0 {
			c.idle++
		}
	}
	if sum != c.Bought {
		c.made += max(0, c.Bought-sum)
		c.lost += max(0, sum-c.Bought)
	}
}

func users(role string, n int) (names []string) {
	for i := range n {
		names = append(names, role+strconv.Itoa(i+1))
	}
	return names
}

// judgeCells returns an error if a result is wrong.
func judgeCells(cells []*cell) error {
	retried := false
	for _, c := range cells {
		where := fmt.Sprintf("%s, %s", c.mix, c.way)
		switch {
		case c.lost > 0 || c.made > 0:
			return demo.Wrong("%s: %d of money and items are missing, and %d came from nowhere", where, c.lost, c.made)
		case c.Listed == 0:
			return demo.Wrong("%s: nothing was listed", where)
		case c.way == WayWatch:
			retried = retried || c.Retries > 0
		case c.Retries > 0:
			return demo.Wrong("%s: %s had to be tried again, though the lock was held", where, phrase.Plural(int(c.Retries), "trade"))
		case c.idle > 0:
			return demo.Wrong("%s: %s of %d bought nothing", where, phrase.Plural(c.idle, "buyer"), c.Buyers)
		}
	}
	if !retried {
		return demo.Wrong("without locks no trade had to be tried again, so that this shows nothing")
	}
	return nil
}
