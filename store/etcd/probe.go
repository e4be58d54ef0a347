package etcd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// probeWithin bounds the questions about the servers' traits. When the driver is made, patience ends them sooner.
const probeWithin = 5 * time.Second

// probe asks the servers for their traits. It fails if no server answers, or if one refuses.
func (d *Driver) probe(ctx context.Context) error {
	bounded, done, err := d.wire.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	bounded, cancel := context.WithTimeout(bounded, probeWithin)
	defer cancel()
	// The answer shows the shortest lease that etcd grants. This lease runs out by itself.
	grant, err := d.wire.client.Grant(bounded, 1)
	if err != nil {
		return d.wire.explain(ctx, err)
	}
	// A missing right to read shows now, and not in the first lock.
	right := clientv3.OpGet(d.wire.folder("probe"), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if _, err := d.wire.read(bounded, right); err != nil {
		return d.wire.explain(ctx, err)
	}
	d.pool.minTTL = time.Duration(grant.TTL) * time.Second
	f, _ := d.facts(bounded)
	d.promised.Set(d.promise(f))
	return nil
}

// promises asks the servers for their traits again. On an error the former traits stay.
func (d *Driver) promises(ctx context.Context) (driver.Traits, error) {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	f, err := d.facts(ctx)
	if err != nil {
		return driver.Traits{}, err
	}
	return d.promise(f), nil
}

// facts are the servers' answers about themselves.
type facts struct {
	members  int      // number of voting members; 0 means unknown
	versions []string // of the members that answered
}

// facts asks the servers for the list of members and for their versions. If the user may not read the list, the members are
// the endpoints, if there are several. Any other error of the list is returned.
func (d *Driver) facts(ctx context.Context) (f facts, err error) {
	endpoints := d.wire.client.Endpoints()
	list, err := d.wire.client.MemberList(ctx)
	switch {
	case err == nil:
		for _, m := range list.Members {
			if !m.IsLearner {
				f.members++
			}
		}
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		if err = nil; len(endpoints) > 1 {
			f.members = len(endpoints)
		}
	}
	var (
		mu  sync.Mutex
		all sync.WaitGroup
	)
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for _, e := range endpoints {
		all.Go(func() {
			status, err := d.wire.client.Status(ctx, e)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			f.versions = append(f.versions, status.Version)
		})
	}
	all.Wait()
	return f, err
}

// promise returns the traits of such servers. No server says whether it confirms before it writes to the disk
// (--unsafe-no-fsync), so no trait shows this.
func (d *Driver) promise(f facts) driver.Traits {
	t := driver.Traits{
		Store: "etcd", Ordered: true, Shared: true, Permits: true, Delay: true, Amends: true, FullWait: true,
		HearsBreak: true, Fencing: driver.DurableFencing, Restart: true, Failover: f.members > 2,
		Clock: "session", Wake: "push", MinTTL: d.pool.minTTL, MaxTTL: driver.MaxTTL,
	}
	switch {
	case f.members == 0:
		t.Warn("the role root, or all endpoints in the URL",
			"The servers do not tell how many they are, so whether locks survive the loss of one is not known.")
	case f.members == 1:
		t.Warn("three members", "The cluster has one member: while it is down, no lock can be had or kept.")
	case f.members == 2:
		t.Warn("three members", "The cluster has two members, and both are needed: there is no failover.")
	case f.members%2 == 0:
		t.Note("The cluster has %d members, and can lose no more of them than with one less.", f.members)
	}
	slices.Sort(f.versions)
	if len(f.versions) > 0 {
		t.Server = "etcd " + strings.Join(slices.Compact(slices.Clone(f.versions)), ", ")
	}
	return t
}
