package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// versions start servers: one of a new version of etcd, and one of the oldest that stile supports.
var versions = map[string]func(servertest.TB, ...string) *servertest.Server{
	"current": servertest.Etcd, "old": servertest.EtcdOld,
}

// open returns a driver for the members at these addresses.
func open(t testing.TB, addrs ...string) *Driver {
	t.Helper()
	a, err := driver.ParseAddress("etcd://" + strings.Join(addrs, ","))
	if err != nil {
		t.Fatal(err)
	}
	d, err := Open(timely(t), a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// lockers returns a client of package stile with a driver of its own.
func lockers(t testing.TB, o *stile.Options, addrs ...string) *stile.Client {
	t.Helper()
	c, err := stile.New(open(t, addrs...), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// operator returns a plain client of etcd, for the acts of an operator.
func operator(t testing.TB, addrs ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func claimOn(name string) *driver.Claim {
	return &driver.Claim{
		Name: name, ID: rand.Text(), Client: rand.Text(), Weight: driver.All, Capacity: driver.All,
		TTL: 30 * time.Second, Wait: 6 * time.Second,
	}
}

// outfitted gives a claim a lease and the name of its key, as Enter does before its transaction.
func outfitted(t testing.TB, d *Driver, c *driver.Claim) *localClaim {
	t.Helper()
	return entering(t, d, c).k
}

// entering returns an Enter that has its lease, and has sent no transaction.
func entering(t testing.TB, d *Driver, c *driver.Claim) *attempt {
	t.Helper()
	a := d.newAttempt(c)
	if err := d.outfit(timely(t), a, new(bool)); err != nil {
		t.Fatal(err)
	}
	return a
}

// keys returns the keys under a folder.
func keys(t testing.TB, c *clientv3.Client, folder string) (list []string) {
	t.Helper()
	r, err := c.Get(timely(t), folder, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range r.Kvs {
		list = append(list, string(kv.Key))
	}
	return list
}

func remove(t testing.TB, c *clientv3.Client, key string) {
	t.Helper()
	if _, err := c.Delete(timely(t), key); err != nil {
		t.Fatal(err)
	}
}

func revoke(t testing.TB, c *clientv3.Client, key string) {
	t.Helper()
	id, ok := leaseIn(key)
	if !ok {
		t.Fatalf("key %q has no lease", key)
	}
	if _, err := c.Revoke(timely(t), clientv3.LeaseID(id)); err != nil {
		t.Fatal(err)
	}
}

// queued waits until a name has n keys, and returns them by name.
func queued(t testing.TB, c *clientv3.Client, folder string, n int) []string {
	t.Helper()
	var list []string
	servertest.Until(t, "the claims stand in the queue", func() bool {
		list = keys(t, c, folder)
		return len(list) == n
	})
	return list
}

// lost waits until a lease is lost, and returns the reason. It fails the test if this takes longer than within.
func lost(t testing.TB, lane *awake.Turn, l *stile.Lease, within time.Duration) *stile.LostError {
	t.Helper()
	start := time.Now()
	select {
	case <-l.Context().Done():
	case <-awake.For(time.Minute):
		t.Fatal("the lease is not lost after a minute")
	}
	lane.Within(time.Since(start), within, "the loss of the lease")
	e, ok := errors.AsType[*stile.LostError](context.Cause(l.Context()))
	if !ok {
		t.Fatalf("the lease ended with %v; want a LostError", context.Cause(l.Context()))
	}
	return e
}

func lock(t testing.TB, l *stile.Lock) *stile.Lease {
	t.Helper()
	lease, err := l.Lock(timely(t))
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func unlock(t testing.TB, l *stile.Lease) {
	t.Helper()
	if err := l.Unlock(); err != nil {
		t.Errorf("unlock: %v", err)
	}
}

// etcdKeys returns the number of keys under a folder; -1 if etcd does not answer.
func etcdKeys(t testing.TB, c *clientv3.Client, folder string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r, err := c.Get(ctx, folder, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return -1
	}
	return int(r.Count)
}
