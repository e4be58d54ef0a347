package consul

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	// probeWithin bounds the driver's own requests.
	probeWithin = 5 * time.Second

	// usualFloor is the shortest session of servers by default (session_ttl_min).
	usualFloor = 10 * time.Second
)

// probe asks for the servers' promises. An error means that Consul cannot be used.
func (d *Driver) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	var err error
	if d.sessions.floor, err = d.shortest(ctx); err != nil {
		return err
	}
	t, err := d.ask(ctx, d.allow)
	if err == nil {
		d.promised.Set(t)
	}
	return err
}

// promises asks the servers again. It keeps the shortest session that probe found.
func (d *Driver) promises(ctx context.Context) (driver.Traits, error) {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	return d.ask(ctx, func(int) {})
}

// ask asks the servers for their promises, and gives allow the agent's limit of connections, if it says one. The time of an election (raft_multiplier) bounds how late they may be. Only the
// dev mode makes a server confirm data that are not on its disk; no setting does.
func (d *Driver) ask(ctx context.Context, allow func(conns int)) (t driver.Traits, err error) {
	var servers []string
	r, err := d.agent.call(ctx, request{method: http.MethodGet, path: "status/peers"})
	if err == nil {
		err = r.decode(&servers)
	}
	if err != nil {
		return t, err
	}
	t = driver.Traits{
		Store: "consul", Ordered: true, Shared: true, Permits: true, Amends: true, Delay: true, FullWait: true, HearsBreak: true,
		Fencing: driver.DurableFencing, Restart: true, Failover: len(servers) > 2, Clock: "session", Wake: "push",
		MinTTL: d.sessions.floor, MaxTTL: driver.MaxTTL, Granularity: time.Millisecond,
	}
	var self struct {
		Config      struct{ Version string }
		DebugConfig struct {
			DevMode               bool
			HTTPMaxConnsPerClient *int
		}
	}
	r, err = d.agent.call(ctx, request{method: http.MethodGet, path: "agent/self"})
	switch lasting := driver.NotApplied(err) && !driver.IsUnreachable(err); {
	case err == nil && r.status == http.StatusOK:
		if err := r.decode(&self); err != nil {
			return t, err
		}
		t.Server = "Consul " + self.Config.Version
		if self.DebugConfig.DevMode {
			t.Warn("an agent without -dev", "The agent runs in dev mode: a restart forgets all claims.")
			t.Restart = false
		}
		if limit := self.DebugConfig.HTTPMaxConnsPerClient; limit != nil {
			allow(*limit)
		}
	case err != nil && !lasting: // trouble on the way says nothing about the agent
		return t, err
	default:
		t.Warn("agent_prefix \"\" { policy = \"read\" }", "The token does not let the agent's settings be read, "+
			"so neither its limit of connections is known, nor whether a restart forgets claims (-dev).")
	}
	switch len(servers) {
	case 0, 1:
		t.Warn("three servers", "There is one server: nothing takes over when it fails.")
	case 2:
		t.Warn("three servers", "There are two servers, and both are needed: nothing takes over when one fails.")
	}
	t.Note("The shortest lease is %v (session_ttl_min).", d.sessions.floor)
	t.Note("Of one process, %d claims wait without polling (http_max_conns_per_client).", cap(d.queries.all))
	t.Note("A session has no checks: a client that dies keeps its claims for between their TTL and twice that.")
	t.Note("A lock-delay is for exclusive claims, a minute at most, and kept in the memory of the servers.")
	return t, nil
}

// shortest finds the shortest session that the servers allow, in their refusal of a shorter one.
func (d *Driver) shortest(ctx context.Context) (time.Duration, error) {
	r, err := d.agent.send(ctx, request{method: http.MethodPut, path: "session/create", body: map[string]any{
		"Name": "stile", "TTL": "1ns", "Behavior": "delete", "Checks": []string{}, "NodeChecks": []string{},
	}})
	if err != nil {
		return 0, d.agent.explain(ctx, err)
	}
	text := string(r.text)
	_, bounds, ok := strings.Cut(text, "must be between [")
	if !ok && r.status/100 != 2 {
		return 0, d.agent.refused(r.status, text)
	}
	least, _, _ := strings.Cut(bounds, "=")
	floor, err := time.ParseDuration(least)
	if err != nil || floor <= 0 {
		return usualFloor, nil //nolint:nilerr // worded otherwise
	}
	return max(floor, 2*time.Millisecond), nil
}
