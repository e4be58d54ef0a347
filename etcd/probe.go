package etcd

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// probeWithin bounds the questions that the driver asks when it is made.
const probeWithin = 5 * time.Second

// probe asks what the servers can promise. The error says that no server answered, or which refused.
func (d *Driver) probe(ctx context.Context) error {
	bounded, done, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	bounded, cancel := context.WithTimeout(bounded, probeWithin)
	defer cancel()
	// A lease as short as etcd gives; it runs out by itself.
	grant, err := d.client.Grant(bounded, 1)
	if err != nil {
		return d.explain(ctx, err)
	}
	// The right to look is asked for now, and not by the first lock.
	right := clientv3.OpGet(d.folder("probe"), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if _, err := d.read(bounded, right); err != nil {
		return d.explain(ctx, err)
	}
	d.traits = promise(d.facts(bounded))
	d.traits.MinTTL = time.Duration(grant.TTL) * time.Second
	return nil
}

// facts are what the servers tell about themselves.
type facts struct {
	members  int      // that vote; 0 if they do not tell
	versions []string // of those that answered
}

func (d *Driver) facts(ctx context.Context) (f facts) {
	endpoints := d.client.Endpoints()
	if list, err := d.client.MemberList(ctx); err == nil {
		for _, m := range list.Members {
			if !m.IsLearner {
				f.members++
			}
		}
	} else if errors.Is(err, rpctypes.ErrPermissionDenied) && len(endpoints) > 1 {
		f.members = len(endpoints)
	}
	var (
		mu  sync.Mutex
		all sync.WaitGroup
	)
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for _, e := range endpoints {
		all.Go(func() {
			status, err := d.client.Status(ctx, e)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			f.versions = append(f.versions, status.Version)
		})
	}
	all.Wait()
	return f
}

// promise says what servers like these are good for.
func promise(f facts) driver.Traits {
	t := driver.Traits{
		Store: "etcd", Ordered: true, Shared: true, Permits: true, Delay: true, Amends: true, FullWait: true,
		Fencing: driver.DurableFencing, Restart: true, Failover: f.members > 1, Clock: "session", Wake: "push", MaxTTL: driver.MaxTTL,
	}
	switch {
	case f.members == 0:
		t.Warn("the role root, or all endpoints in the URL",
			"The servers do not tell how many they are, so whether locks survive the loss of one is not known.")
	case f.members == 1:
		t.Warn("three members", "The cluster has one member: while it is down, no lock can be had or kept.")
	case f.members%2 == 0:
		t.Note("The cluster has %d members, and can lose no more of them than with one less.", f.members)
	}
	slices.Sort(f.versions)
	if len(f.versions) > 0 {
		t.Server = "etcd " + strings.Join(slices.Compact(slices.Clone(f.versions)), ", ")
	}
	for _, v := range f.versions {
		if stale(v) {
			t.Warn("etcd 3.4.31, 3.5.13 or 3.6, or a later one", "etcd %s has a bug by which a leader that is stuck ends leases too early: "+
				"check the token where it matters.", v)
		}
	}
	return t
}

// stale reports whether a server has the bug of etcd issue 15247: a leader that was replaced while it was stuck revokes
// leases that its successor has kept alive. The fix is pull request 16822.
func stale(version string) bool {
	for line, fixed := range map[string]int{"3.4": 31, "3.5": 13} {
		if patch, ok := strings.CutPrefix(version, line+"."); ok {
			patch, _, _ = strings.Cut(patch, "-")
			n, err := strconv.Atoi(patch)
			return err == nil && n < fixed
		}
	}
	minor, ok := strings.CutPrefix(version, "3.")
	minor, _, _ = strings.Cut(minor, ".")
	n, err := strconv.Atoi(minor)
	return ok && err == nil && n < 4
}
