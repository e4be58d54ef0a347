package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// probeWithin bounds the time in which the driver asks for the ensemble's promises.
const probeWithin = 5 * time.Second

// minTTL is the shortest lease: it leaves time for a few round trips.
const minTTL = 100 * time.Millisecond

// probe checks that the chroot exists, and asks for the ensemble's promises.
func (d *Driver) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	s, err := d.zk.Live()
	if err != nil {
		return err
	}
	root, config := wire.Exists(d.zk.Conf.Path, nil), wire.Get(wire.ConfigPath, nil)
	if err := d.zk.Do(ctx, s, wire.Sync("/"), root, config); err != nil {
		return err
	}
	switch {
	case errors.Is(root.Err, wire.NoNode):
		return d.zk.NoChroot()
	case root.Err != nil:
		return d.zk.Refused(d.zk.Conf.Path, root.Err)
	}
	nodes := wire.Ephemerals(d.zk.Prefix)
	if err := d.zk.Do(ctx, s, nodes); err == nil && errors.Is(nodes.Err, wire.Unimplemented) {
		d.line.Blinded()
	}
	d.promised.Set(d.promise(config.Err == nil, wire.Voters(config.Data), s.Timeout()))
	return nil
}

// promises asks the ensemble again for its list of servers. A server that an operator restarted on its own, outside the
// ensemble, still shows the old list. No server says whether it writes to the disk what it confirms (forceSync).
func (d *Driver) promises(ctx context.Context) (driver.Traits, error) {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	s, err := d.zk.Live()
	if err != nil {
		return driver.Traits{}, err
	}
	config := wire.Get(wire.ConfigPath, nil)
	if err := d.zk.Do(ctx, s, wire.Sync("/"), config); err != nil {
		return driver.Traits{}, err
	}
	return d.promise(config.Err == nil, wire.Voters(config.Data), s.Timeout()), nil
}

// promise returns the promises of an ensemble with this number of voting servers. If known is false, the driver could not
// read the list of servers.
func (d *Driver) promise(known bool, voters int, session time.Duration) driver.Traits {
	t := driver.Traits{
		Store: "zookeeper", Ordered: true, Shared: true, Permits: d.layout != znode.ReadWrite, InSession: true, Asks: true,
		HearsBreak: d.layout != znode.Latch,
		Amends:     d.layout != znode.Semaphore,
		Fencing:    driver.DurableFencing, Restart: true, Failover: voters > 2,
		Clock: "session", Wake: "push",
		MinTTL: minTTL, MaxTTL: driver.MaxTTL, Granularity: time.Millisecond, Session: session,
	}
	switch {
	case !known:
		t.Warn("an ACL that lets the client read "+wire.ConfigPath,
			"The server does not let %s read %s, so how many servers there are is not known.", d.zk.Who(), wire.ConfigPath)
	case voters <= 1:
		t.Warn("three servers", "There is one server: while it is away nobody gets a lock, and there is no failover.")
	case voters == 2:
		t.Warn("three servers", "There are two servers that vote, and both are needed: there is no failover.")
	default:
		t.Note("There are %d servers that vote: %d of them may fail.", voters, (voters-1)/2)
	}
	t.Note("The session time is %v: no lease is longer than what is left of it, and the locks of a process that died are free "+
		"after it, however short their leases were.", session)
	if asked := d.zk.Conf.Timeout; session != asked {
		t.Warn("minSessionTimeout and maxSessionTimeout around it",
			"The session time that was asked for, %v, is not within the bounds that the server sets.", asked)
	}
	t.Note("A lock that stays taken after its release (UnlockAfter) is free earlier if its client's session ends.")
	if d.layout == znode.ReadWrite {
		t.Note("In the layout of the read-write lock there are no permits.")
	}
	if d.layout == znode.Semaphore {
		t.Note("In the layout of the semaphore each permit is a node, and a claim has %d at most; "+
			"it cannot be changed while it holds.", znode.MaxPermits)
	}
	return t
}
