package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/quorum"
)

//go:embed lua/redlock/enter_lone.lua
var redlockEnterLoneLua string

//go:embed lua/redlock/stamp.lua
var redlockStampLua string

//go:embed lua/redlock/raise.lua
var redlockRaiseLua string

func init() {
	driver.Register("redlock", openRedlock)
	driver.Register("redlocks", openRedlock)
}

// openRedlock opens the quorum of independent servers, each in layout setnx, by an address that names them all:
//
//	redlock://[user:password@]host[:6379],host,host[/database]
//
// or redlocks by TLS, with the parameters of [Open] and max_ttl and timeout, which are those of [quorum.Options].
func openRedlock(ctx context.Context, a *driver.Address) (driver.Driver, error) {
	o := &quorum.Options{Store: "redlock"}
	var err error
	if o.MaxTTL, err = a.Duration("max_ttl", time.Minute); err != nil {
		return nil, err
	}
	if o.Timeout, err = a.Duration("timeout", 0); err != nil {
		return nil, err
	}
	if o.MaxTTL < minLease || o.MaxTTL > driver.MaxTTL {
		return nil, driver.Refused(fmt.Errorf("parameter max_ttl must be from %v to %v", minLease, driver.MaxTTL))
	}
	if len(a.Hosts) == 0 {
		return nil, driver.Refused(fmt.Errorf("%s:// needs its hosts, as in %[1]s://h1,h2,h3", a.Scheme))
	}
	scheme, prefix := "redis", a.Param("prefix", "")
	if a.Scheme == "redlocks" {
		scheme = "rediss"
	}
	var nodes []quorum.Node
	for _, host := range a.HostPorts("", "6379") {
		at := a.At(scheme, host)
		nodes = append(nodes, quorum.Node{Name: host, Open: func(ctx context.Context) (driver.Driver, error) {
			d, err := Open(ctx, at)
			if errors.Is(err, errReplica) {
				return nil, driver.Refused(errReplica) // not for now: each server of a quorum is named, and stands for itself
			}
			if err != nil {
				return nil, err
			}
			return newVoter(d, prefix), nil
		}})
	}
	return quorum.New(ctx, nodes, o)
}

// A voter is one server of a Redlock: a [SetNX] that agrees with others on tickets.
type voter struct {
	*SetNX
	enters, raise *script
}

var _ quorum.Member = (*voter)(nil)

func newVoter(d *Driver, prefix string) *voter {
	exceed := ""
	if d.allowOOM {
		exceed = allowsOOM // the claim is there already
	}
	v := &voter{
		SetNX:  newSetNX(d, prefix),
		enters: newScript(redlockEnterLoneLua + setNXParseLua + setNXEnterLua + redlockStampLua + setNXTakeLua),
		raise:  newScript(exceed + setNXParseLua + redlockRaiseLua),
	}
	v.enters.beside, v.raise.beside = ticketKey, ticketKey
	return v
}

// ticketKey is where a server keeps the last ticket of a name: in the same slot as the key of the lock, if that has no
// braces itself. No lock of another library has such a name.
func ticketKey(key string) string { return "stile/ticket/{" + key + "}" }

// Vote is [quorum.Member]. It is one round trip.
func (v *voter) Vote(ctx context.Context, c *driver.Claim, least int64) (driver.Place, error) {
	return v.enter(ctx, c, v.enters, number(least))
}

// Raise is [quorum.Member].
func (v *voter) Raise(ctx context.Context, c *driver.Claim, ticket int64) error {
	_, err := v.d.run(ctx, v.raise, request{v.key(c.Name), c.ID, []string{c.ID, number(ticket)}})
	return err
}

// Free is [quorum.Member].
func (v *voter) Free(ctx context.Context, name string) (bool, error) {
	left, _, err := v.tracker.look(ctx, v.key(name))
	return left == noKey, v.d.explain(ctx, err)
}

// Contact is [quorum.Member].
func (v *voter) Contact() int64 { return v.d.dialer.made.Load() }

// Report is [quorum.Member].
func (v *voter) Report(ctx context.Context) (*quorum.Report, error) {
	if err := v.d.connected(ctx, ticketKey("")); err != nil {
		return nil, v.d.explain(ctx, err)
	}
	bounded, release := v.d.bound(ctx)
	defer release()
	f, err := ask(bounded, v.d.client)
	if err != nil {
		return nil, v.d.explain(ctx, err)
	}
	now, err := v.d.client.Do(bounded, v.d.client.B().Time().Build()).AsIntSlice()
	if err != nil {
		return nil, v.d.explain(ctx, err)
	}
	switch {
	case len(now) != 2:
		return nil, errors.New("redis does not tell the time")
	case f.info["run_id"] == "":
		return nil, driver.Refused(fmt.Errorf("redis does not let %s run INFO, by which it is known when it was started", v.d.who()))
	case f.role == "slave":
		return nil, driver.Refused(driver.Unreachable(errReplica))
	}
	var up int64
	if _, err := fmt.Sscan(f.info["uptime_in_seconds"], &up); err != nil {
		return nil, errors.New("redis does not tell when it was started")
	}
	r := &quorum.Report{
		ID: f.info["run_id"], Clock: time.Unix(now[0], now[1]*1000),
		Up: max(0, time.Duration(up-1)*time.Second), // it counts in whole seconds, and the first may have been short
	}
	r.Keeps, r.Reason = f.keeps()
	return r, nil
}

// keeps reports whether a server loses nothing that it has answered, and if it may, by what.
func (f *facts) keeps() (bool, string) {
	switch policy := f.info["maxmemory_policy"]; {
	case f.info["aof_enabled"] != "1":
		return false, "appendonly no"
	case f.fsync == "":
		return false, "appendfsync is not known"
	case f.fsync != "always":
		return false, "appendfsync " + f.fsync
	case policy != "noeviction" && f.info["maxmemory"] != "0":
		return false, "maxmemory-policy " + policy
	}
	return true, ""
}
