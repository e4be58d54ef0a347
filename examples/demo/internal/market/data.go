//go:build unix

package market

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// A market is the data of the demo of the market, in Redis as in the book Redis in Action: a sorted set of offers, whose
// members are an item and its seller, with the price as score; a hash with the funds of each user; and a set with the
// inventory of each. All keys have one hash tag, so that a cluster keeps them on one node.
type market struct {
	db     rueidis.DedicatedClient
	prefix string // of all keys
}

const (
	startFunds = 1_000_000_000 // of each user: nobody runs out
	browsed    = 20            // a buyer chooses among so many of the cheapest offers
)

// The reasons why a trade failed.
var (
	errAborted = errors.New("the transaction was aborted: somebody changed what it had read")
	errNothing = errors.New("nothing is offered")
	errSold    = errors.New("the item was sold meanwhile")
)

// An offer is an item of the market.
type offer struct {
	member       string // of the sorted set
	item, seller string
	price        int64
}

func offerOf(z rueidis.ZScore) offer {
	item, seller, _ := strings.Cut(z.Member, ".")
	return offer{z.Member, item, seller, int64(z.Score)}
}

func (m *market) offers() string               { return m.prefix + "market:" }
func (m *market) user(name string) string      { return m.prefix + "users:" + name }
func (m *market) inventory(name string) string { return m.prefix + "inventory:" + name }

// OpenMarket connects to the Redis of a URL.
func OpenMarket(url string) (rueidis.Client, error) {
	o, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	o.DisableCache = true
	return rueidis.NewClient(o)
}

// stock gives users their funds.
func (m *market) stock(ctx context.Context, users []string) error {
	for _, name := range users {
		cmd := m.db.B().Hset().Key(m.user(name)).FieldValue().FieldValue("name", name).FieldValue("funds",
			strconv.Itoa(startFunds)).Build()
		if err := m.db.Do(ctx, cmd).Error(); err != nil {
			return err
		}
	}
	return nil
}

// mint puts a new item into an inventory.
func (m *market) mint(ctx context.Context, seller, item string) error {
	return m.db.Do(ctx, m.db.B().Sadd().Key(m.inventory(seller)).Member(item).Build()).Error()
}

// list offers an item of an inventory. The error is errAborted if the inventory was changed meanwhile.
func (m *market) list(ctx context.Context, seller, item string, price int64) error {
	inventory, b := m.inventory(seller), m.db.B
	seen := m.db.DoMulti(ctx, b().Watch().Key(inventory).Build(), b().Sismember().Key(inventory).Member(item).Build())
	if err := firstError(seen); err != nil {
		return err
	}
	if has, err := seen[1].AsBool(); err != nil || !has {
		return errors.Join(err, errSold, m.unwatch(ctx))
	}
	return m.exec(ctx, []rueidis.Completed{
		b().Zadd().Key(m.offers()).ScoreMember().ScoreMember(float64(price), item+"."+seller).Build(),
		b().Srem().Key(inventory).Member(item).Build(),
	})
}

// pick returns one of the cheapest offers.
func pick(cheap []rueidis.ZScore) (offer, error) {
	if len(cheap) == 0 {
		return offer{}, errNothing
	}
	return offerOf(cheap[rand.N(len(cheap))]), nil
}

// browse picks an offer without reading anything else.
func (m *market) browse(ctx context.Context) (offer, error) {
	cheap, err := m.db.Do(ctx, m.cheapest()).AsZScores()
	if err != nil {
		return offer{}, err
	}
	return pick(cheap)
}

func (m *market) cheapest() rueidis.Completed {
	return m.db.B().Zrange().Key(m.offers()).Min("0").Max(strconv.Itoa(browsed - 1)).Withscores().Build()
}

// buyAny picks an offer and buys it, in a transaction that fails with errAborted if anybody changed the market or the
// buyer's funds since they were read.
func (m *market) buyAny(ctx context.Context, buyer string) error {
	b := m.db.B
	seen := m.db.DoMulti(ctx, b().Watch().Key(m.offers(), m.user(buyer)).Build(), m.cheapest(),
		b().Hget().Key(m.user(buyer)).Field("funds").Build())
	if err := firstError(seen); err != nil {
		return err
	}
	cheap, err := seen[1].AsZScores()
	if err != nil {
		return err
	}
	o, err := pick(cheap)
	if err != nil {
		return errors.Join(err, m.unwatch(ctx))
	}
	if err := affords(seen[2], o.price); err != nil {
		return err
	}
	return m.exec(ctx, m.sale(buyer, &o))
}

// buyThis buys an offer without a watch: the caller holds the item's lock. The error is errSold if the item is gone, and
// errAborted if it went during the purchase, which the lock must prevent.
func (m *market) buyThis(ctx context.Context, buyer string, o *offer) error {
	b := m.db.B
	seen := m.db.DoMulti(ctx, b().Zscore().Key(m.offers()).Member(o.member).Build(),
		b().Hget().Key(m.user(buyer)).Field("funds").Build())
	switch _, err := seen[0].AsFloat64(); {
	case rueidis.IsRedisNil(err):
		return errSold
	case err != nil:
		return err
	}
	if err := affords(seen[1], o.price); err != nil {
		return err
	}
	return m.exec(ctx, m.sale(buyer, o))
}

func affords(funds rueidis.RedisResult, price int64) error {
	has, err := funds.AsInt64()
	if err == nil && has < price {
		err = fmt.Errorf("a buyer has %d left, and the item costs %d", has, price)
	}
	return err
}

// sale returns the commands of a purchase. The last one removes the offer, and says whether it was there.
func (m *market) sale(buyer string, o *offer) []rueidis.Completed {
	b := m.db.B
	return []rueidis.Completed{
		b().Hincrby().Key(m.user(o.seller)).Field("funds").Increment(o.price).Build(),
		b().Hincrby().Key(m.user(buyer)).Field("funds").Increment(-o.price).Build(),
		b().Sadd().Key(m.inventory(buyer)).Member(o.item).Build(),
		b().Zrem().Key(m.offers()).Member(o.member).Build(),
	}
}

// exec runs commands as a transaction. The last one removes something, which must have been there.
func (m *market) exec(ctx context.Context, commands []rueidis.Completed) error {
	all := append([]rueidis.Completed{m.db.B().Multi().Build()}, commands...)
	results := m.db.DoMulti(ctx, append(all, m.db.B().Exec().Build())...)
	answers, err := results[len(results)-1].ToArray()
	switch {
	case rueidis.IsRedisNil(err):
		return errAborted
	case err != nil:
		return errors.Join(firstError(results[:len(results)-1]), err)
	}
	if removed, err := answers[len(answers)-1].AsInt64(); err != nil || removed != 1 {
		return errors.Join(errAborted, err)
	}
	return nil
}

func (m *market) unwatch(ctx context.Context) error {
	return m.db.Do(ctx, m.db.B().Unwatch().Build()).Error()
}

func firstError(results []rueidis.RedisResult) error {
	for _, r := range results {
		if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
	}
	return nil
}

// A stocktaking is the contents of a market.
type stocktaking struct {
	funds, items int64
	bought       map[string]int64 // of each buyer: its inventory
}

// count counts the possessions of the users and the offers.
func (m *market) count(ctx context.Context, listers, buyers []string) (s stocktaking, err error) {
	b := m.db.B
	s.bought = map[string]int64{}
	if s.items, err = m.db.Do(ctx, b().Zcard().Key(m.offers()).Build()).AsInt64(); err != nil {
		return s, err
	}
	for i, name := range append(append([]string{}, listers...), buyers...) {
		funds, err := m.db.Do(ctx, b().Hget().Key(m.user(name)).Field("funds").Build()).AsInt64()
		if err != nil {
			return s, err
		}
		items, err := m.db.Do(ctx, b().Scard().Key(m.inventory(name)).Build()).AsInt64()
		if err != nil {
			return s, err
		}
		s.funds += funds
		s.items += items
		if i >= len(listers) {
			s.bought[name] = items
		}
	}
	return s, nil
}

// clear removes the market.
func (m *market) clear(ctx context.Context, users []string) error {
	keys := []string{m.offers()}
	for _, name := range users {
		keys = append(keys, m.user(name), m.inventory(name))
	}
	return m.db.Do(ctx, m.db.B().Unlink().Key(keys...).Build()).Error()
}
