package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
)

const urlPage = "../../docs/reference/urls.md"

// A urlRow is a store of docs/reference/urls.md: how its URL looks, and a URL that its driver takes apart, as far as the
// parameters, without a server.
type urlRow struct {
	store, shown string
	schemes      []string // the plain one first
	rest         string   // of the URL, after the scheme and before the parameters
	layout       string   // a parameter that selects another kind of lock
	page         string
}

var urlRows = []urlRow{
	{"SQLite", "sqlite:///path/locks.db", []string{"sqlite"}, "/tmp/no/locks.db", "", "sqlite"},
	{"Redis", "redis://user:password@host:6379/0", []string{"redis", "rediss"}, "h", "", "redis"},
	{"Redis behind Sentinel", "redis+sentinel://h1:26379,h2,h3/primary/0", []string{"redis+sentinel", "rediss+sentinel"}, "h/p",
		"", "redis"},
	{"Redis Cluster", "redis+cluster://h1:6379,h2,h3", []string{"redis+cluster", "rediss+cluster"}, "h", "", "redis"},
	{"Redlock", "redlock://h1:6379,h2,h3/0", []string{"redlock", "redlocks"}, "h1,h2,h3", "", "redlock"},
	{"Tair", "tair://user:password@host:6379/0", []string{"tair", "tairs"}, "h", "", "tair"},
	{"memcached", "memcached://user:password@host:11211", []string{"memcached"}, "h", "", "memcached"},
	{"PostgreSQL", "postgres://user:password@h1:5432,h2/database", []string{"postgres", "postgresql"}, "h/d", "", "postgres"},
	{"PostgreSQL, advisory locks", "postgres://h1,h2/database?mode=session", []string{"postgres", "postgresql"}, "h/d",
		"mode=session", "postgres"},
	{"PostgreSQL, a table of another library", "postgres://h1,h2/database?layout=shedlock", []string{"postgres", "postgresql"},
		"h/d", "layout=shedlock", "shedlock"},
	{"MySQL, MariaDB", "mysql://user:password@host:3306/database", []string{"mysql", "mariadb"}, "h/d", "", "mysql"},
	{"MySQL, MariaDB, user-level locks", "mysql://host/database?mode=session", []string{"mysql", "mariadb"}, "h/d", "mode=session", "mysql"},
	{"MySQL, a table of another library", "mysql://host/database?layout=shedlock", []string{"mysql", "mariadb"}, "h/d",
		"layout=shedlock", "shedlock"},
	{"ZooKeeper", "zk://user:password@h1:2181,h2,h3/chroot", []string{"zk", "zks"}, "h", "", "zookeeper"},
	{"etcd", "etcd://user:password@h1:2379,h2,h3", []string{"etcd", "etcds"}, "h", "", "etcd"},
	{"Consul", "consul://:token@host:8500", []string{"consul", "consuls"}, "h", "", "consul"},
	{"several stores", "shard:///path/list", []string{"shard"}, "/tmp/no/list", "", "shard"},
	{"the lock service", "stile://h1:7845,h2", []string{"stile", "stiles"}, "h", "", ""},
	{"this process", "memory://", []string{"memory"}, "", "", ""},
}

// A parameter is docs/reference/urls.md's description of a parameter of URLs.
type parameter struct{ name, means, absent string }

var parameters = []parameter{
	{"acl", "ZooKeeper: who may touch the nodes: `open`, everybody; `creator`, the user of the URL", "`creator` with a user, else `open`"},
	{"application_name", "PostgreSQL: the name that the server shows for the connections", "`stile`"},
	{"busy", "SQLite: how long a call waits while another process writes", "`5s`"},
	{"create", "`false` opens only a file that is there, and makes nothing", "`true`"},
	{"dc", "Consul: the datacenter, which must be the agent's own", "the agent's"},
	{"dial_timeout", "how long to try to make a connection", "`5s`; `2s` behind Sentinel"},
	{"layout", "what the locks are kept as, to share them with other clients: `queue`, `setnx`; Tair also `exset`; memcached " +
		"`queue`, `plain`; SQL `queue`, `shedlock`, `tb_distributed_lock`; ZooKeeper `mutex`, `rw`, `latch`, `semaphore`",
		"`queue`; in ZooKeeper `mutex`"},
	{"max_ttl", "Redlock: the longest lease with its lock-delay, and how long a server that may have forgotten does not vote; from `100ms` to `24h`",
		"`1m`"},
	{"mode", "PostgreSQL, MySQL: `rows` of a table, or a `session`, whose advisory or user-level locks end with the connection", "`rows`"},
	{"namespace", "Consul Enterprise: the namespace", "`default`"},
	{"pool_max_conns", "SQL: how many connections a client opens, from 1", "`8`"},
	{"prefix", "what the keys, tables or paths begin with",
		"`stile/`, and SQL `stile_`; none in layouts of other clients, with Redlock and in `memory://`"},
	{"previous", "several stores: the names of the stores of the list before, with `;` between", "there was none"},
	{"schema", "PostgreSQL: the schema of the tables: letters, digits, `_` and `-`", "`stile`"},
	{"sentinel_password", "the password for Sentinel itself", "none"},
	{"sentinel_user", "the user for Sentinel itself", "none"},
	{"session", "ZooKeeper: how long a session without a sign of life is kept, and so the ttl of locks; from `1ms` to `24h`, and the server has limits of its own",
		"`10s`"},
	{"session_timeout", "PostgreSQL, MySQL, `mode=session`: how long the server keeps a connection that is silent; from `2s`", "`30s`"},
	{"sslcert", "PostgreSQL: the file with the client's certificate", "`PGSSLCERT`"},
	{"sslkey", "PostgreSQL: the file with its key", "`PGSSLKEY`"},
	{"sslmode", "PostgreSQL: `disable`, `allow`, `prefer`, `require`, `verify-ca` or `verify-full`", "`PGSSLMODE`, else `prefer`"},
	{"sslrootcert", "PostgreSQL: the file with the authorities to trust", "`PGSSLROOTCERT`"},
	{"stores", "several stores, in place of the file: `name=URL` or `name*weight=URL`, with `;` between", "the file of the path"},
	{"table", "a table of another library: its name", "the name that the library gives it"},
	{"timeout", "Redlock: how long each server has to answer", "a quarter of the ttl, from `50ms` to `2s`"},
	{"tls", "MySQL: `false`, `preferred`, which does not check who the server is, `true`, or `skip-verify`", "`preferred`"},
	{"tls_ca", "the file with the authorities to trust", "those of the system"},
	{"tls_cert", "the file with the client's certificate", "none is shown"},
	{"tls_key", "the file with its key; goes with `tls_cert`", "none"},
	{"tls_server_name", "the name that the server's certificate must have", "that of the host"},
	{"token_file", "the lock service: the file with the client's token", "the password, or none"},
}

// TestURLTable gets from each driver the parameters that its URLs may have, by the error about one that none has.
func TestURLTable(t *testing.T) {
	t.Parallel()
	var urls, table strings.Builder
	urls.WriteString("| store | URL | parameters | with TLS |\n| --- | --- | --- | --- |\n")
	users, schemes := map[string][]string{}, map[string]bool{}
	for _, row := range urlRows {
		plain := known(t, row, row.schemes[0])
		secure := "no"
		for _, scheme := range row.schemes {
			schemes[scheme] = true
			all := known(t, row, scheme)
			if more := slices.DeleteFunc(slices.Clone(all), func(p string) bool { return slices.Contains(plain, p) }); len(more) > 0 {
				secure = fmt.Sprintf("`%s://`, and %s", scheme, inCode(more))
			}
			for _, p := range all {
				if !slices.Contains(users[p], row.store) {
					users[p] = append(users[p], row.store)
				}
			}
		}
		switch {
		case slices.Contains(plain, "sslmode"):
			secure = "`sslmode`"
		case slices.Contains(plain, "tls"):
			secure = "`tls`"
		}
		store := row.store
		if row.page != "" {
			store = fmt.Sprintf("[%s](../stores/%s.md)", row.store, row.page)
		}
		fmt.Fprintf(&urls, "| %s | `%s` | %s | %s |\n", store, row.shown, inCode(plain), secure)
	}
	table.WriteString("| parameter | means | if left out |\n| --- | --- | --- |\n")
	for _, p := range parameters {
		if users[p.name] == nil {
			t.Errorf("no store has parameter %s", p.name)
		}
		delete(users, p.name)
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", p.name, p.means, p.absent)
	}
	for name, stores := range users {
		t.Errorf("the page does not say what parameter %s of %s means", name, strings.Join(stores, ", "))
	}
	for _, scheme := range registered(t) {
		if !schemes[scheme] {
			t.Errorf("the page has no %s://", scheme)
		}
	}
	holds(t, urlPage, "urls", urls.String())
	holds(t, urlPage, "parameters", table.String())
}

// known returns the parameters that the driver of a URL knows.
func known(t *testing.T, row urlRow, scheme string) []string {
	t.Helper()
	url := scheme + "://" + row.rest + "?no_such=1"
	if row.layout != "" {
		url += "&" + row.layout
	}
	d, err := driver.Open(t.Context(), url)
	if err == nil {
		d.Close()
		t.Fatalf("%s is taken", url)
	}
	_, list, ok := strings.Cut(err.Error(), "; known: ")
	if !ok || !strings.Contains(err.Error(), `unknown parameter "no_such"`) {
		t.Fatalf("%s: %v; want an error that lists the known parameters", url, err)
	}
	return strings.Split(strings.TrimRight(list, ")"), ", ")
}

// registered returns the schemes of all stores.
func registered(t *testing.T) []string {
	t.Helper()
	_, err := driver.Open(t.Context(), "nosuchstore://")
	if err == nil {
		t.Fatal("nosuchstore:// is taken")
	}
	_, list, _ := strings.Cut(err.Error(), "known: ")
	return strings.Split(list, ", ")
}

func inCode(list []string) string { return "`" + strings.Join(list, "`, `") + "`" }
