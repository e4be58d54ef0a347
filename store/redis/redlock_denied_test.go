package redis_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// A permanent refusal by most servers is not reported as an outage, for which a caller would wait: it names the servers and
// what to change. A refusal by one of three keeps no claim from the lock.
func TestRedlockDenied(t *testing.T) {
	t.Parallel()
	for what, deny := range map[string]struct {
		command []string
		want    string
	}{
		"memory": {[]string{"CONFIG", "SET", "maxmemory", "1"}, "no memory left for a new claim: raise maxmemory"},
		"rights": {[]string{"ACL", "SETUSER", "default", "-evalsha", "-eval"}, "does not let the default user do this"},
		"saving": {[]string{"CONFIG", "SET", "min-replicas-to-write", "1"}, ""}, // a temporary refusal
		"type": {
			[]string{"EVAL", "redis.call('DEL', KEYS[1]) redis.call('HSET', KEYS[1], 'a', 1)", "1", "stile/ticket/{name}"},
			`"stile/ticket/{name}" is of another type`,
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			servers, url := redlockOf(t, 3, durable...)
			d := openRedlock(t, url)
			servers[0].Redis(deny.command)
			c := redlockClaim("name", "first")
			holds(t, d, c)
			if a := d.Renew(soon(t), []*driver.Claim{c})[0]; a.Err != nil {
				t.Errorf("renewal while one server refuses = %v", a.Err)
			}
			leaves(t, d, c)
			servers[1].Redis(deny.command)
			_, err := try(t, d, redlockClaim("name", "second"))
			switch {
			case err == nil || driver.OutcomeOf(err) != driver.OutcomeRefused && deny.want != "":
				t.Fatalf("enter = %v; want it refused", err)
			case driver.IsUnreachable(err) != (deny.want == ""):
				t.Errorf("enter = %v: unreachable %v; want %v", err, driver.IsUnreachable(err), deny.want == "")
			case deny.want != "" && (!strings.Contains(err.Error(), deny.want) || !names(err, servers[:2])):
				t.Errorf("enter = %v; want %q, and which server says so", err, deny.want)
			}
			servertest.Until(t, "nothing is left on the third", func() bool { return on(servers[2:], "name") == 0 })
		})
	}
}

// names reports whether an error names one of the servers.
func names(err error, servers []*servertest.Server) bool {
	return slices.ContainsFunc(servers, func(s *servertest.Server) bool {
		return strings.Contains(err.Error(), "node "+s.Addr)
	})
}
