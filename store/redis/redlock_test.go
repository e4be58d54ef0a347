package redis_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// durable are the arguments of a server that loses no data.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// redlockOf starts servers and returns them, and the URL of the quorum over them.
func redlockOf(t testing.TB, n int, args ...string) ([]*servertest.Server, string) {
	t.Helper()
	var (
		list  []*servertest.Server
		hosts []string
	)
	for range n {
		s := servertest.Redis(t, args...)
		list, hosts = append(list, s), append(hosts, s.Addr)
	}
	return list, "redlock://" + strings.Join(hosts, ",")
}

func openRedlock(t testing.TB, url string) driver.Driver {
	t.Helper()
	d := opener(url)(t)
	t.Cleanup(func() { d.Close() })
	return d
}

// fullServers returns a function that makes servers, most of which can be full.
func fullServers(n int) func(testing.TB) *drivertest.Full {
	return func(t testing.TB) *drivertest.Full {
		servers, url := redlockOf(t, n, durable...)
		open := opener(url + "?max_ttl=1h&timeout=10s")
		return &drivertest.Full{
			Open: func() driver.Driver { return open(t) },
			Fill: func() {
				for _, s := range servers[:n/2+1] {
					s.Redis([]string{"CONFIG", "SET", "maxmemory", "1"})
				}
			},
			Says: "no memory left for a new claim", Renews: true,
		}
	}
}

func TestContractOfRedlock(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			servers, url := redlockOf(t, n, durable...)
			drive.Lacks(t, opener(url), driver.TraitOrder, driver.TraitReaders, driver.TraitPermits)
			// A claim that holds needed two round trips to each of them, within its lease.
			s := drivertest.Store{Open: opener(url + "?max_ttl=1h&timeout=10s"), Lease: time.Second, Halfway: true}
			if evenIfFull(servers[0]) {
				s.Full = fullServers(n)
			}
			drivertest.Run(t, s)
		})
	}
}

// With redlocks:// the client speaks TLS with all servers, and all must show a trusted certificate.
func TestRedlockTLS(t *testing.T) {
	t.Parallel()
	var (
		hosts       []string
		authorities []byte
	)
	for range 3 {
		s, authority := servertest.RedisTLS(t, durable...)
		text, err := os.ReadFile(authority)
		if err != nil {
			t.Fatal(err)
		}
		hosts, authorities = append(hosts, s.Addr), append(authorities, text...)
	}
	all := filepath.Join(t.TempDir(), "authorities.pem")
	if err := os.WriteFile(all, authorities, 0o600); err != nil {
		t.Fatal(err)
	}
	url := "redlocks://" + strings.Join(hosts, ",")
	d := openRedlock(t, url+"?tls_ca="+all)
	c := redlockClaim("secure", "x")
	holds(t, d, c)
	leaves(t, d, c)
	if d, err := driver.Open(soon(t), url); !driver.IsUnreachable(err) {
		t.Errorf("open %s, whose certificates are not trusted = %v, %v; want it unreachable", url, d, err)
	}
	plain := "redlock://" + strings.Join(hosts, ",")
	_, err := driver.Open(soon(t), plain)
	if driver.IsUnreachable(err) || driver.OutcomeOf(err) != driver.OutcomeRefused {
		t.Errorf("open %s, which requires TLS: %v; want it refused for good", plain, err)
	}
	if err == nil || !strings.Contains(err.Error(), "requires TLS: use redlocks://") {
		t.Errorf("open %s: %v; want the scheme to use", plain, err)
	}
}

func redlockClaim(name, id string) *driver.Claim {
	return &driver.Claim{
		Name: name, ID: id, Client: "client-of-" + id, Weight: driver.All, Capacity: driver.All,
		TTL: 10 * time.Second, Wait: 5 * time.Second, Record: "record-of-" + id,
	}
}

// proxied returns proxies for some servers, and the URL of the quorum through them.
func proxied(t testing.TB, servers []*servertest.Server) ([]*servertest.Proxy, string) {
	t.Helper()
	var (
		list  []*servertest.Proxy
		hosts []string
	)
	for _, s := range servers {
		p := servertest.NewProxy(t, s.Addr)
		list, hosts = append(list, p), append(hosts, p.Addr)
	}
	return list, "redlock://" + strings.Join(hosts, ",")
}

// try asks once for the lock, and notes the ticket if the claim holds.
func try(t testing.TB, d driver.Driver, c *driver.Claim) (driver.Place, error) {
	t.Helper()
	p, err := d.Enter(soon(t), c)
	if err == nil && p.Holds {
		c.Ticket = p.Ticket
	}
	return p, err
}

// on counts the servers that have a key.
func on(servers []*servertest.Server, key string) (n int) {
	for _, s := range servers {
		if s.Redis([]string{"EXISTS", key}) == int64(1) {
			n++
		}
	}
	return n
}

// A lock that is taken again within the hour and released costs each server two scripts of two commands each.
func TestRedlockCommands(t *testing.T) {
	t.Parallel()
	servers, url := redlockOf(t, 3, durable...)
	d := openRedlock(t, url)
	pair := func(i int) {
		c := redlockClaim("counted", fmt.Sprint("c", i))
		holds(t, d, c)
		// One server may be late.
		servertest.Until(t, "all servers have it", func() bool { return on(servers, "counted") == len(servers) })
		leaves(t, d, c)
		servertest.Until(t, "all servers have let it go", func() bool { return on(servers, "counted") == 0 })
	}
	pair(0)
	for _, s := range servers {
		s.Redis([]string{"CONFIG", "RESETSTAT"})
	}
	const pairs = 10
	for i := range pairs {
		pair(1 + i)
	}
	for _, s := range servers {
		stats := s.Redis([]string{"INFO", "commandstats"}).(string)
		for command, want := range map[string]int{"evalsha": 2 * pairs, "set": 2 * pairs, "get": pairs, "del": pairs} {
			got := 0
			if _, after, ok := strings.Cut(stats, "cmdstat_"+command+":calls="); ok {
				_, _ = fmt.Sscan(strings.SplitN(after, ",", 2)[0], &got)
			}
			if got != want {
				t.Errorf("%d calls of %s for %d pairs; want %d", got, command, pairs, want)
			}
		}
	}
}
