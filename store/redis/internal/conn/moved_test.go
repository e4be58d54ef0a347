package conn

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/internal/work"
)

// A led client leads to one of two servers, as a Sentinel's client does at a failover.
type led struct {
	rueidis.Client
	now atomic.Pointer[led] // the client that gets the requests; nil means this one
}

// at returns the client that gets the requests.
func (l *led) at() rueidis.Client {
	if now := l.now.Load(); now != nil {
		return now.Client
	}
	return l.Client
}

// Mode is [rueidis.Client].
func (l *led) Mode() rueidis.ClientMode { return rueidis.ClientModeSentinel }

// Nodes is [rueidis.Client].
func (l *led) Nodes() map[string]rueidis.Client {
	for addr := range l.at().Nodes() {
		return map[string]rueidis.Client{addr: l.at()}
	}
	return nil
}

// A client of Sentinel connects to a new primary, and asks it for its role before requests go to it. Meanwhile the old
// primary answers for the store's promises. These must be asked for again.
func TestPrimaryOfBeforeIsNotTheLastWord(t *testing.T) {
	t.Parallel()
	server := func(args ...string) *led {
		o := ordinary()
		o.InitAddress, o.ForceSingleClient = []string{servertest.Redis(t, args...).Addr}, true
		client, err := rueidis.NewClient(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return &led{Client: client}
	}
	before, after := server(), server("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	for name, own := range map[string]bool{"client of the driver": false, "client of the caller": true} {
		t.Run(name, func(t *testing.T) {
			before.now.Store(nil)
			c := newConn()
			c.client, c.store = before, "redis"
			t.Cleanup(c.Life.Wait)
			t.Cleanup(c.End)
			if !own {
				c.dialer = newDialer(time.Second, time.Second)
				t.Cleanup(c.dialer.close)
			}
			asks, answers := c.promised.Ask, atomic.Int64{}
			c.promised.Ask = func(ctx context.Context) (driver.Traits, error) {
				defer answers.Add(1)
				return asks(ctx)
			}
			if err := c.probe(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !own {
				c.dialer.made.Add(1)
				c.promised.Life = work.Begin()
				c.Traits()
				servertest.Until(t, "the primary of before answers", func() bool { return answers.Load() == 1 })
				c.promised.Life.End()
				c.promised.Life.Wait() // the answer counts
				c.promised.Life = c.Life
			}
			before.now.Store(after)
			asked := answers.Load()
			c.Traits()
			servertest.Until(t, "the new primary answers", func() bool { return answers.Load() > asked })
			servertest.Until(t, "its answer counts", func() bool { return slices.Contains(c.Traits().Lacks(driver.TraitFit), driver.TraitFit) })
		})
	}
}
