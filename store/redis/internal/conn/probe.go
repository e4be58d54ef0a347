package conn

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// MinLease is the shortest lease.
const MinLease = 100 * time.Millisecond

// probeWithin bounds each of the Conn's own requests.
const probeWithin = 5 * time.Second

// probe asks every server for its promises, and decides how to talk to the servers. The error says that no server answered.
func (c *Conn) probe(ctx context.Context) error {
	found, err := c.examine(ctx)
	if err != nil {
		return err
	}
	oldest := slices.MinFunc(found, func(a, b *facts) int { return a.version - b.version }).version
	c.sharded = oldest >= 7 && c.client.Mode() == rueidis.ClientModeCluster
	c.mute = slices.ContainsFunc(found, func(f *facts) bool { return !f.tells })
	c.allowOOM = oldest >= 7
	c.promised.Set(c.promise(found))
	return nil
}

// askTraits asks every server again for its promises. It does not decide again how to talk to the servers.
func (c *Conn) askTraits(ctx context.Context) (driver.Traits, error) {
	found, err := c.examine(ctx)
	if err != nil {
		return driver.Traits{}, err
	}
	return c.promise(found), nil
}

// examine asks every server for its facts. The error says that no primary answered.
func (c *Conn) examine(ctx context.Context) ([]*facts, error) {
	told, failed := askAll(ctx, c, c.client.Nodes(), func(ctx context.Context, _ string, node rueidis.Client) (*facts, error) {
		return factsOf(ctx, node)
	})
	found := make([]*facts, 0, len(told))
	for _, f := range told {
		if f.role != "slave" {
			found = append(found, f)
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	for _, err := range failed {
		return nil, c.explain(ctx, err)
	}
	return nil, driver.Refused(driver.Unreachable(ErrReplica))
}

// promise returns the promises that all servers make.
func (c *Conn) promise(servers []*facts) (t driver.Traits) {
	t.Store, t.Delay, t.Restart, t.Clock = c.store, true, true, "server"
	t.MinTTL, t.MaxTTL, t.Granularity = MinLease, driver.MaxTTL, time.Millisecond
	replicated, products := false, []string{}
	for _, s := range servers {
		if s.product != "" && !slices.Contains(products, s.product) {
			products = append(products, s.product)
		}
		replicated = replicated || s.replicas > 0
		if len(s.info) == 0 {
			t.Warn("+info in the ACL, and no rename-command for it",
				"The server does not let %s run INFO, so its persistence, eviction and replicas are not known.", c.Who())
			t.Restart = false
			continue
		}
		switch {
		case s.info["aof_enabled"] != "1":
			t.Warn("appendonly yes, appendfsync always",
				"The server keeps no append-only file: a restart can lose claims and let two hold a lock.")
			t.Restart = false
		case s.fsync == "":
			t.Warn("+config|get in the ACL, and no rename-command for it",
				"The server does not let %s read appendfsync, so what a crash can lose is not known.", c.Who())
			t.Restart = false
		case s.fsync != "always":
			t.Warn("appendfsync always",
				"The server writes its append-only file with appendfsync %s: a crash can lose the last claims.", s.fsync)
			t.Restart = false
		}
		if policy := s.info["maxmemory_policy"]; policy != "noeviction" && s.info["maxmemory"] != "0" {
			t.Unfit("maxmemory-policy noeviction",
				"When memory is full the server evicts keys (maxmemory-policy %s), claims among them.", policy)
		}
	}
	if replicated || c.client.Mode() != rueidis.ClientModeStandalone {
		t.Warn("", "Replicas follow late, so a failover can lose the last claims and let two hold a lock: "+
			"check the token where it matters.")
	}
	slices.Sort(products)
	t.Server = strings.Join(products, ", ")
	t.Note("Leases end by the server's wall clock: a step of it ends them early or late.")
	return t
}
