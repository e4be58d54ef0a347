//go:build unix

package market

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/memory"
)

// The judge must see what goes wrong, or the demo proves nothing.
func TestMarketDemoJudges(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(free, locked *cell)
		want string // in the error; none if empty
	}{
		{"good", func(_, _ *cell) {}, ""},
		{"money is missing", func(_, l *cell) { l.lost = 3 }, "5/5, one lock for all: 3 of money and items are missing, and 0 came from nowhere"},
		{"items from nowhere", func(f, _ *cell) { f.made = 1 }, "and 1 came from nowhere"},
		{"tried again with a lock", func(_, l *cell) { l.Retries = 2 }, "2 trades had to be tried again, though the lock was held"},
		{"idle buyers", func(_, l *cell) { l.idle = 2 }, "2 buyers of 5 bought nothing"},
		{"nothing listed", func(_, l *cell) { l.Listed = 0 }, "nothing was listed"},
		{"never tried again without a lock", func(f, _ *cell) { f.Retries = 0 }, "this shows nothing"},
		{"idle buyers without a lock", func(f, _ *cell) { f.idle = 5 }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			free, locked := &cell{mix: mix{5, 5}, way: WayWatch}, &cell{mix: mix{5, 5}, way: wayCoarse}
			free.Listed, free.Retries, locked.Listed = 9, 7, 9
			tt.edit(free, locked)
			err := judgeCells([]*cell{free, locked})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if code, _ := exit.Of(err); err != nil && code != exit.Failed {
				t.Errorf("not status %d", exit.Failed)
			}
		})
	}
}

// The audit sees money and items that are missing, and purchases that nobody made.
func TestMarketAudit(t *testing.T) {
	for _, tt := range []struct {
		name       string
		edit       func(s *stocktaking)
		lost, made int64
		idle       int
	}{
		{"all there", func(*stocktaking) {}, 0, 0, 0},
		{"money missing", func(s *stocktaking) { s.funds -= 5 }, 5, 0, 0},
		{"money made", func(s *stocktaking) { s.funds += 5 }, 0, 5, 0},
		{"item missing", func(s *stocktaking) { s.items-- }, 1, 0, 0},
		{"item twice", func(s *stocktaking) { s.items++ }, 0, 1, 0},
		{"a purchase without an item", func(s *stocktaking) { s.bought["buyer1"] = 0 }, 0, 2, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &cell{mix: mix{1, 1}}
			c.Minted, c.Bought = 9, 2
			s := stocktaking{funds: 2 * startFunds, items: 9, bought: map[string]int64{"buyer1": 2}}
			tt.edit(&s)
			c.audit(s, users("buyer", 1))
			if c.lost != tt.lost || c.made != tt.made || c.idle != tt.idle {
				t.Errorf("missing %d, from nowhere %d, idle %d; want %d, %d, %d", c.lost, c.made, c.idle, tt.lost, tt.made, tt.idle)
			}
		})
	}
}

// A trade that read what somebody changed meanwhile is aborted, and leaves everything as it was.
func TestMarketAborts(t *testing.T) {
	t.Parallel()
	ctx, all := t.Context(), []string{"lister1", "buyer1", "buyer2"}
	data, err := OpenMarket("redis://" + servertest.Redis(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	open := func() *market {
		db, release := data.Dedicate()
		t.Cleanup(release)
		return &market{db, "test:{1}:"}
	}
	m, other := open(), open()
	for _, step := range []func() error{
		func() error { return m.stock(ctx, all) },
		func() error { return m.mint(ctx, "lister1", "hat") },
		func() error { return m.list(ctx, "lister1", "hat", 30) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	o, err := m.browse(ctx)
	if err != nil || o != (offer{"hat.lister1", "hat", "lister1", 30}) {
		t.Fatalf("got %+v, %v", o, err)
	}
	b := m.db.B
	if err := m.db.Do(ctx, b().Watch().Key(m.offers()).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if err := other.buyThis(ctx, "buyer2", &o); err != nil {
		t.Fatal(err)
	}
	if err := m.exec(ctx, m.sale("buyer1", &o)); !errors.Is(err, errAborted) {
		t.Errorf("bought what was sold meanwhile: %v; want %v", err, errAborted)
	}
	if err := m.buyThis(ctx, "buyer1", &o); !errors.Is(err, errSold) {
		t.Errorf("bought what is not offered: %v; want %v", err, errSold)
	}
	if err := m.buyAny(ctx, "buyer1"); !errors.Is(err, errNothing) {
		t.Errorf("bought from an empty market: %v; want %v", err, errNothing)
	}
	if err := m.list(ctx, "lister1", "hat", 30); !errors.Is(err, errSold) {
		t.Errorf("listed what the lister has not: %v; want %v", err, errSold)
	}
	s, err := m.count(ctx, all[:1], all[1:])
	if err != nil || s.funds != 3*startFunds || s.items != 1 || s.bought["buyer1"] != 0 || s.bought["buyer2"] != 1 {
		t.Errorf("got %+v, %v; want all money, and the hat with buyer2", s, err)
	}
}

// Each user has one errand in a process of their own, or all are of one process.
func TestErrands(t *testing.T) {
	for _, tt := range []struct {
		way  way
		want int
	}{{WayWatch, 3}, {wayCoarse, 3}, {wayItem, 3}, {wayTurns, 1}} {
		c := &cell{mix: mix{2, 1}, way: tt.way}
		list := c.errands(&errand{Way: tt.way, For: time.Second}, users("lister", 2), users("buyer", 1))
		var listers, buyers []string
		for _, e := range list {
			listers, buyers = append(listers, e.Listers...), append(buyers, e.Buyers...)
		}
		if len(list) != tt.want || !slices.Equal(listers, users("lister", 2)) || !slices.Equal(buyers, users("buyer", 1)) {
			t.Errorf("%s: %d errands, for %v and %v; want %d", tt.way, len(list), listers, buyers, tt.want)
		}
	}
}

// A buyer who comes when the others have bought all and nobody lists any more finds something yet.
func TestMarketLateBuyer(t *testing.T) {
	t.Parallel()
	data, err := OpenMarket("redis://" + servertest.Redis(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	locks, err := stile.New(memory.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	early := errand{
		Prefix: "test:{1}:", Lock: "market", Way: wayCoarse, For: 50 * time.Millisecond,
		Listers: []string{"lister1"}, Buyers: []string{"buyer1"},
	}
	db, release := data.Dedicate()
	defer release()
	if err := (&market{db, early.Prefix}).stock(t.Context(), []string{"lister1", "buyer1", "buyer2"}); err != nil {
		t.Fatal(err)
	}
	late := early
	late.Listers, late.Buyers = nil, []string{"buyer2"}
	for i, e := range []*errand{&early, &late} {
		if sum, err := e.run(t.Context(), locks, data); err != nil || sum.Bought == 0 {
			t.Errorf("errand %d: %d bought, %v; want something", i, sum.Bought, err)
		}
	}
}
