package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// BenchmarkStoppedLeader stops a leader for longer than a lease, and lets it go on after it was replaced. It reports how
// many leases that the successor kept alive then ended early: leases of etcd's own client, and renewed claims of stile.
//
//	go test -run NONE -bench StoppedLeader -benchtime 12x ./store/etcd
func BenchmarkStoppedLeader(b *testing.B) {
	b.Run("leases", func(b *testing.B) { stoppedLeader(b, leaseEndsEarly) })
	b.Run("claims", func(b *testing.B) { stoppedLeader(b, claimEndsEarly) })
}

func stoppedLeader(b *testing.B, endsEarly func(context.Context, *clientv3.Client, time.Duration) bool) {
	const ttl, leases, stopped = 3 * time.Second, 40, 4 * time.Second
	members := servertest.EtcdCluster(b, 3)
	var clients []*clientv3.Client
	for _, addr := range addresses(members) {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: ttl, Logger: zap.NewNop()})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		clients = append(clients, c)
	}
	var early, leaders float64
	for b.Loop() {
		at := leader(b, members)
		ctx, end := context.WithCancel(b.Context())
		var all sync.WaitGroup
		var lost atomic.Int64
		for i := range leases {
			all.Go(func() {
				if endsEarly(ctx, clients[(at+1+i%2)%len(clients)], ttl) {
					lost.Add(1)
				}
			})
		}
		passes(b, ttl/2)
		members[at].Pause()
		passes(b, stopped)
		members[at].Resume()
		passes(b, ttl/2)
		end()
		all.Wait()
		if n := lost.Load(); n > 0 {
			leaders++
			early += float64(n)
		}
	}
	b.ReportMetric(leaders, "leaders-ending-leases")
	b.ReportMetric(early, "leases-ended-early")
}

// leaseEndsEarly keeps a lease alive until ctx ends, and reports whether it ended sooner than its TTL after the last
// answered keep-alive was sent.
func leaseEndsEarly(ctx context.Context, c *clientv3.Client, ttl time.Duration) bool {
	granted := time.Now()
	l, err := c.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return false
	}
	again := time.NewTicker(ttl / 4)
	defer again.Stop()
	for kept := granted; ; {
		select {
		case <-again.C:
		case <-ctx.Done():
			return false
		}
		sent := time.Now()
		bounded, cancel := context.WithTimeout(ctx, ttl/3)
		_, err := c.KeepAliveOnce(bounded, l.ID)
		cancel()
		switch {
		case err == nil:
			kept = sent
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			return time.Since(kept) < ttl
		}
	}
}

// claimEndsEarly renews a claim until ctx ends, and reports whether it was gone sooner than its last renewal promised.
func claimEndsEarly(ctx context.Context, client *clientv3.Client, ttl time.Duration) bool {
	d, err := New(ctx, client, &Options{Prefix: rand.Text() + "/"})
	if err != nil {
		return false
	}
	defer d.Close()
	c := claimOn("name")
	c.TTL = ttl
	began := time.Now()
	p, err := d.Enter(ctx, c)
	if err != nil {
		return false
	}
	c.Ticket = p.Ticket
	again := time.NewTicker(ttl / 4)
	defer again.Stop()
	for trusted := began.Add(p.TTL); ; {
		select {
		case <-again.C:
		case <-ctx.Done():
			return false
		}
		began := time.Now()
		bounded, cancel := context.WithTimeout(ctx, ttl/3)
		r := d.Renew(bounded, []*driver.Claim{c})[0]
		cancel()
		switch {
		case r.Err == nil:
			trusted = began.Add(r.TTL)
		case errors.Is(r.Err, driver.ErrGone):
			return time.Now().Before(trusted)
		}
	}
}

// passes waits for a time, or until the benchmark ends.
func passes(b *testing.B, d time.Duration) {
	b.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.Context().Done():
	}
}
