package conn

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// protocolLua returns a number of a type that only RESP3 has; in this protocol a server can send messages without a
// request. HELLO would show this too, but needs a right of its own.
const protocolLua = "return {double=1}"

// ErrReplica says that all servers are replicas.
var ErrReplica = errors.New(notPrimary)

// facts is one server's description of itself.
type facts struct {
	product  string // its name and version; "" if unknown
	version  int    // the major version; 0 if unknown
	role     string
	info     map[string]string // empty if unknown
	fsync    string            // "" if unknown
	replicas int
	tells    bool // it reports changes of keys
}

// factsOf asks one server for all of its facts, in one round trip.
func factsOf(ctx context.Context, node rueidis.Client) (*facts, error) {
	b := node.B()
	r := node.DoMulti(ctx,
		b.Info().Build(),
		b.ConfigGet().Parameter("appendfsync").Build(),
		b.Arbitrary("HELLO").Build(),
		b.Arbitrary("CLIENT", "TRACKING", "?").Build(), // always an error, which shows whether a right is missing
		b.Eval().Script(protocolLua).Numkeys(0).Build(),
	)
	f := &facts{info: map[string]string{}}
	text, err := r[0].ToString()
	if err != nil {
		if !lacks(err) {
			return nil, err
		}
		text = ""
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
	if hello, err := r[2].AsMap(); err == nil && version == "" {
		v, role := hello["version"], hello["role"]
		version, _ = v.ToString()
		f.role, _ = role.ToString()
		if f.role == "replica" {
			f.role = "slave"
		}
	}
	if refusal, ok := rueidis.IsRedisErr(r[3].Error()); ok && strings.Contains(refusal.Error(), "syntax error") {
		m, err := r[4].ToMessage()
		f.tells = err == nil && m.IsFloat64()
	}
	if valkey := f.info["valkey_version"]; valkey != "" {
		f.product = "Valkey " + valkey
	} else if version != "" {
		f.product = "Redis " + version
	}
	major, _, _ := strings.Cut(version, ".")
	f.version, _ = strconv.Atoi(major)
	return f, nil
}

// keeps reports whether a server keeps every acknowledged write; if not, it returns the event that may lose one.
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

// A Server is one run of a server, from its start to its end.
type Server struct {
	ID     string        // differs after each start
	Up     time.Duration // since it was started, or less
	Clock  time.Time     // its wall clock
	Keeps  bool          // it never loses an acknowledged write
	Reason string        // the event in which it may lose one, for people
}

// Server describes the server that answers, for a Conn to one server. The key is any key that the user may read.
func (c *Conn) Server(ctx context.Context, key string) (*Server, error) {
	var (
		f      *facts
		now    []int64
		failed error
	)
	err := c.call(ctx, key, func(ctx context.Context) {
		if f, failed = factsOf(ctx, c.client); failed == nil {
			now, failed = c.client.Do(ctx, c.client.B().Time().Build()).AsIntSlice()
		}
	})
	if err == nil {
		err = c.explain(ctx, failed)
	}
	switch {
	case err != nil:
		return nil, err
	case len(now) != 2:
		return nil, errors.New("redis does not tell the time")
	case f.info["run_id"] == "":
		return nil, driver.Refused(fmt.Errorf("redis does not let %s run INFO, by which it is known when it was started",
			c.Who()))
	case f.role == "slave":
		return nil, driver.Refused(driver.Unreachable(ErrReplica))
	}
	up, err := strconv.ParseInt(f.info["uptime_in_seconds"], 10, 64)
	if err != nil {
		return nil, errors.New("redis does not tell when it was started")
	}
	s := &Server{
		ID: f.info["run_id"], Clock: time.Unix(now[0], now[1]*1000),
		Up: max(0, time.Duration(up-1)*time.Second), // it counts in whole seconds, and the first may have been short
	}
	s.Keeps, s.Reason = f.keeps()
	return s, nil
}

// Connections counts the connections that were made, each before its first use.
func (c *Conn) Connections() int64 { return c.dialer.made.Load() }
