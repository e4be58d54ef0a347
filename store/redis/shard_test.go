package redis_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/store/shard"
)

// shardURL names servers, called s0, s1, and so on.
func shardURL(servers ...*servertest.Server) string {
	var stores []string
	for i, s := range servers {
		stores = append(stores, fmt.Sprintf("s%d=redis://%s", i, s.Addr))
	}
	return "shard://?stores=" + strings.Join(stores, ";")
}

func TestContractOfShards(t *testing.T) {
	t.Parallel()
	url := shardURL(servertest.Redis(t), servertest.Redis(t), servertest.Redis(t))
	drivertest.Run(t, drivertest.Store{Open: opener(url)})
}

func TestContractOfShardsInMove(t *testing.T) {
	t.Parallel()
	url := shardURL(servertest.Redis(t), servertest.Redis(t), servertest.Redis(t)) + "&previous=s0;s1"
	drivertest.Run(t, drivertest.Store{Open: opener(url)})
}

// One server of three is killed. Its names fail and the others go on, for earlier clients and for new ones. When it is back,
// all go on.
func TestShardsWithOneServerDown(t *testing.T) {
	t.Parallel()
	servers := []*servertest.Server{servertest.Redis(t), servertest.Redis(t), servertest.Redis(t)}
	url := shardURL(servers...)
	before := opener(url)(t)
	defer before.Close()
	enter := func(d driver.Driver, name string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := &driver.Claim{
			Name: name, ID: name, Client: "client", Weight: driver.All, Capacity: driver.All,
			TTL: time.Minute, Wait: time.Minute,
		}
		_, err := d.Enter(ctx, c)
		return err
	}
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprint("name", i))
	}
	servers[1].Kill()
	after := opener(url)(t)
	defer after.Close()
	for what, d := range map[string]driver.Driver{"before": before, "after": after} {
		up, down := 0, 0
		for _, name := range names {
			switch err := enter(d, name); {
			case err == nil:
				up++
			case strings.HasPrefix(err.Error(), "store s1: ") && driver.IsUnreachable(err):
				down++
			default:
				t.Errorf("opened %s: enter %s = %v; want nil, or that store s1 is down", what, name, err)
			}
		}
		if up < 10 || down < 2 {
			t.Errorf("opened %s: %d names could be had and %d not; want about two thirds and a third", what, up, down)
		}
	}
	servers[1].Restart()
	for what, d := range map[string]driver.Driver{"before": before, "after": after} {
		servertest.Until(t, "all names can be had by the client opened "+what, func() bool {
			for _, name := range names {
				if enter(d, name) != nil {
					return false
				}
			}
			return true
		})
	}
}

// A fourth server is added under load. Clients with three servers, with both lists, and with four exclude each other, two
// neighbouring stages at a time.
func TestShardsAreAddedUnderLoad(t *testing.T) {
	t.Parallel()
	servers := []*servertest.Server{servertest.Redis(t), servertest.Redis(t), servertest.Redis(t), servertest.Redis(t)}
	stages := []string{shardURL(servers[:3]...), shardURL(servers...) + "&previous=s0;s1;s2", shardURL(servers...)}
	const names = 12
	var (
		inside [names]atomic.Int64
		locked [3]atomic.Int64 // by the clients of each stage
	)
	// lock lets a client of a stage lock all names in turn until the context ends.
	lock := func(ctx context.Context, stage int) {
		c, err := stile.Open(t.Context(), stages[stage], nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		for i := 0; ctx.Err() == nil; i = (i + 1) % names {
			err := c.Mutex(fmt.Sprint("name", i)).Do(t.Context(), func(context.Context) error {
				if inside[i].Add(1) != 1 {
					t.Errorf("name%d is held by two at stage %d", i, stage)
				}
				servers[i%len(servers)].Redis([]string{"PING"}) // long enough for others to enter
				inside[i].Add(-1)
				return nil
			})
			if err != nil {
				t.Errorf("stage %d: %v", stage, err)
				return
			}
			locked[stage].Add(1)
		}
	}
	start := func(stage int) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		for range 3 {
			work.Go(func() { lock(ctx, stage) })
		}
		return func() { cancel(); work.Wait() }
	}
	// together waits until the clients of some stages have locked all names a few more times.
	together := func(stages ...int) {
		for _, stage := range stages {
			enough := locked[stage].Load() + 10*names
			servertest.Until(t, fmt.Sprintf("stage %d locks", stage), func() bool {
				return locked[stage].Load() >= enough || t.Failed()
			})
		}
	}
	first := start(0)
	together(0)
	second := start(1)
	together(0, 1)
	first()
	third := start(2)
	together(1, 2)
	second()
	together(2)
	third()
}

// Tickets come from the servers' time, so a name's tickets rise through a move between servers whose clocks agree.
func TestTicketsRiseThroughMove(t *testing.T) {
	t.Parallel()
	servers := []*servertest.Server{servertest.Redis(t), servertest.Redis(t), servertest.Redis(t)}
	last := map[string]int64{}
	for _, url := range []string{shardURL(servers[:2]...), shardURL(servers...) + "&previous=s0;s1", shardURL(servers...)} {
		c, err := stile.Open(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			name := fmt.Sprint("name", i%20)
			err := c.Mutex(name).Do(t.Context(), func(ctx context.Context) error {
				ticket := stile.FromContext(ctx).Ticket() // while stores change, it is not promised as a token
				if ticket <= last[name] {
					t.Errorf("the ticket of %s is %d; want above %d", name, ticket, last[name])
				}
				last[name] = ticket
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		c.Close()
	}
}
