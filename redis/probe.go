package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// minLease is the shortest that is kept.
const minLease = 100 * time.Millisecond

// probeWithin bounds each question that the driver asks on its own behalf.
const probeWithin = 5 * time.Second

// protocolLua is answered with a number of a type that only RESP3 has, the protocol in which a server can tell what it was
// not asked; HELLO, which says so too, is a right of its own.
const protocolLua = "return {double=1}"

var errReplica = errors.New(notPrimary)

// probe asks every server what it can promise, gives it the scripts, and settles how to talk to it. The error says that
// no server answered.
func (d *Driver) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	nodes := d.client.Nodes()
	found := make([]*facts, 0, len(nodes))
	errs := make([]error, 0, len(nodes))
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, node := range nodes {
		asked.Go(func() {
			f, err := ask(ctx, node)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			} else if f.role != "slave" {
				found = append(found, f)
			}
		})
	}
	asked.Wait()
	if len(found) == 0 && len(errs) > 0 {
		return d.explain(ctx, errs[0])
	}
	if len(found) == 0 {
		return driver.Refused(driver.Unreachable(errReplica))
	}
	oldest := slices.MinFunc(found, func(a, b *facts) int { return a.version - b.version }).version
	d.sharded = oldest >= 7 && d.client.Mode() == rueidis.ClientModeCluster
	d.mute = slices.ContainsFunc(found, func(f *facts) bool { return !f.tells })
	d.allowOOM = oldest >= 7
	d.scripts = newScripts(d.allowOOM, d.sharded)
	d.traits = d.promise(found)
	d.preload(ctx, nodes)
	return nil
}

// preload gives the servers the scripts. It is no matter if that fails: a script is sent along when it is missing.
func (d *Driver) preload(ctx context.Context, nodes map[string]rueidis.Client) {
	for _, node := range nodes {
		var cmds rueidis.Commands
		for _, s := range d.scripts.all() {
			cmds = append(cmds, node.B().ScriptLoad().Script(s.text).Build())
		}
		node.DoMulti(ctx, cmds...)
	}
}

// facts are what one server tells about itself.
type facts struct {
	version  int // the major one; 0 if the server does not tell
	role     string
	info     map[string]string // empty if the server does not tell
	fsync    string            // "" if the server does not tell
	replicas int
	tells    bool // of changes of keys
}

func ask(ctx context.Context, node rueidis.Client) (*facts, error) {
	b := node.B()
	r := node.DoMulti(ctx,
		b.Info().Build(),
		b.ConfigGet().Parameter("appendfsync").Build(),
		b.Arbitrary("HELLO").Build(),
		b.Arbitrary("CLIENT", "TRACKING", "?").Build(), // an error in any case, which says whether it is one of rights
		b.Eval().Script(protocolLua).Numkeys(0).Build(),
	)
	f := &facts{info: map[string]string{}}
	text, err := r[0].ToString()
	if err != nil {
		refusal, ok := errors.AsType[*rueidis.RedisError](err)
		if !ok || !strings.HasPrefix(refusal.Error(), "NOPERM") {
			return nil, err
		}
	}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			f.info[k] = v
		}
	}
	f.role = f.info["role"]
	f.replicas, _ = strconv.Atoi(f.info["connected_slaves"])
	version := f.info["redis_version"]
	if config, err := r[1].AsStrMap(); err == nil {
		f.fsync = config["appendfsync"]
	}
	if refusal, ok := rueidis.IsRedisErr(r[3].Error()); ok && strings.Contains(refusal.Error(), "syntax error") {
		m, err := r[4].ToMessage()
		f.tells = err == nil && m.IsFloat64()
	}
	if hello, err := r[2].AsMap(); err == nil && version == "" {
		v, role := hello["version"], hello["role"]
		version, _ = v.ToString()
		f.role, _ = role.ToString()
		if f.role == "replica" {
			f.role = "slave"
		}
	}
	major, _, _ := strings.Cut(version, ".")
	f.version, _ = strconv.Atoi(major)
	return f, nil
}

// promise says what servers like these are good for, the weakest deciding.
func (d *Driver) promise(servers []*facts) driver.Traits {
	t := driver.Traits{
		Store: "redis", Ordered: true, Shared: true, Permits: true, Delay: true, Fencing: driver.ClockFencing, Restart: true,
		Clock: "server", Wake: "push",
		MinTTL: minLease, MaxTTL: driver.MaxTTL, Granularity: time.Millisecond,
	}
	note := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !slices.Contains(t.Notes, text) {
			t.Notes = append(t.Notes, text)
		}
	}
	replicated := false
	for _, s := range servers {
		replicated = replicated || s.replicas > 0
		if len(s.info) == 0 {
			note("The server does not let %s run INFO, so its persistence, eviction and replicas are not known.", d.who())
			t.Restart = false
			continue
		}
		switch {
		case s.info["aof_enabled"] != "1":
			note("The server keeps no append-only file (appendonly no): a restart can lose claims and let two hold a lock.")
			t.Restart = false
		case s.fsync == "":
			note("The server does not let %s read appendfsync, so what a crash can lose is not known.", d.who())
			t.Restart = false
		case s.fsync != "always":
			note("The server writes its append-only file with appendfsync %s: a crash can lose the last claims; only always keeps all.", s.fsync)
			t.Restart = false
		}
		if policy := s.info["maxmemory_policy"]; policy != "noeviction" && s.info["maxmemory"] != "0" {
			note("When memory is full the server evicts keys (maxmemory-policy %s), claims among them: use noeviction.", policy)
		}
	}
	if replicated || d.client.Mode() != rueidis.ClientModeStandalone {
		note("Replicas follow late, so a failover can lose the last claims and let two hold a lock: check the token where it matters.")
	}
	note("Leases end by the server's wall clock: a step of it ends them early or late.")
	return t
}
