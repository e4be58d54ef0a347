package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
)

// A replica that is dead or hangs delays a cluster's listing and opening by one bounded wait. A primary that hangs does too,
// and the error names it.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	nodes := servertest.RedisCluster(t, "--cluster-node-timeout", "60000") // it stays in the cluster's list
	replica := servertest.RedisClusterReplica(t, nodes)
	url := "redis+cluster://" + nodes[0].Addr
	before := open(t, url)
	const names = 24
	for i := range names {
		c := claim(fmt.Sprint("name", i), fmt.Sprint("id", i))
		c.TTL = time.Hour // longer than the stopped servers delay a slow machine
		enter(t, before, c)
	}
	lists := func(what string, d driver.Driver, lacks string) {
		t.Helper()
		began := awake.For(5 * time.Second)
		ctx, cancel := driver.WithPatience(t.Context(), 5*time.Second, nil)
		defer cancel()
		list, err := d.(driver.Lister).List(ctx, &driver.Query{Prefix: "name"})
		select {
		case <-began:
			t.Errorf("%s: the listing took 5 s or longer", what)
		default:
		}
		if lacks == "" && (err != nil || len(list) != names) {
			t.Errorf("%s: %d names, %v; want %d", what, len(list), err, names)
		}
		if lacks != "" && (!driver.IsUnreachable(err) || !strings.Contains(err.Error(), lacks)) {
			t.Errorf("%s: %v; want an error that names %s", what, err, lacks)
		}
	}
	opens := func(what string) driver.Driver {
		t.Helper()
		d, err := driver.Open(t.Context(), url)
		if err != nil {
			t.Fatalf("%s: open: %v", what, err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	replica.Pause()
	c, err := stile.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatalf("with a replica that hangs: %v; want it opened within the usual patience", err)
	}
	c.Close()
	lists("a replica hangs", before, "")
	lists("a replica hangs, new client", opens("a replica hangs"), "")
	replica.Resume()
	replica.Kill()
	lists("a replica is dead", before, "")
	lists("a replica is dead, new client", opens("a replica is dead"), "")
	nodes[1].Pause()
	t.Cleanup(nodes[1].Resume)
	lists("a primary hangs", before, nodes[1].Addr)
	lists("a primary hangs, new client", opens("a primary hangs"), nodes[1].Addr)
}
