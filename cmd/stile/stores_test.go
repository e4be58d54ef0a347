package main

import (
	"database/sql"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stilelock/stile/cmd/stile/internal/trial"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// The documents describe the stores in the stores' own words: a choice in README.md, and a table and the remarks of
// each in docs/evidence/promises.md.

var updateDocs = flag.Bool("update", false, "write what the documents say of the stores and their URLs anew")

const promises = "../../docs/evidence/promises.md"

// choices are the rows of the choice in README.md: whoever has this, and the store of which URL they take.
var choices = []struct{ have, row, url string }{
	{"one machine", "SQLite", "sqlite:///path/locks.db"},
	{"PostgreSQL", "PostgreSQL", "postgres://host/database"},
	{"PostgreSQL with a synchronous standby", "PostgreSQL with a synchronous standby", "postgres://h1,h2/database"},
	{"MySQL or MariaDB", "MySQL or MariaDB", "mysql://host/database"},
	{"etcd, Consul or ZooKeeper, three servers", "etcd, three members", "etcd://h1,h2,h3"},
	{"Redis that writes each change to disk (`appendfsync always`)", "Redis, `appendfsync always`", "redis://host"},
	{"Redis as it is installed", "Redis, nothing on disk", "redis://host"},
	{"memcached", "memcached with `-M`", "memcached://host"},
}

// chineseWords are the words of the choice in README.zh-CN.md. Chinese can be broken after every character, so on a phone a
// column would be one character wide: a title that is not broken keeps it wider.
var chineseWords = map[string]string{
	"you have": "你有", "you need a lock": "你&NoBreak;要&NoBreak;锁&NoBreak;来",
	"the locks": "锁&NoBreak;会&NoBreak;怎&NoBreak;样", "take": "选用",
	"one machine":                                                  "一台机器",
	"PostgreSQL with a synchronous standby":                        "PostgreSQL，有同步备库",
	"MySQL or MariaDB":                                             "MySQL 或 MariaDB",
	"etcd, Consul or ZooKeeper, three servers":                     "etcd、Consul 或 ZooKeeper，三台服务器",
	"Redis that writes each change to disk (`appendfsync always`)": "Redis，每次改动都落盘（`appendfsync always`）",
	"Redis as it is installed":                                     "Redis，安装后未改配置",
	"to be right, or to save work":                                 "保证正确，或避免重复劳动",
	"**only to save work**":                                        "**只用来避免重复劳动**",
	"survive a failover":                                           "故障切换后还在",
	"survive a restart":                                            "重启后还在",
	"survive crashed processes":                                    "进程崩溃后还在",
	"**are gone after a restart**":                                 "**重启后就没有了**",
}

// inChinese translates cells of the choice. Names and URLs are the same in both languages.
func inChinese(t *testing.T, cells []string) (list []string) {
	t.Helper()
	for _, cell := range cells {
		words, ok := chineseWords[cell]
		switch {
		case ok:
			cell = words
		case strings.Contains(strings.Trim(cell, "`"), " "):
			t.Errorf("README.zh-CN.md has no words for %q: add them to chineseWords", cell)
		}
		list = append(list, cell)
	}
	return list
}

// A storeRow is a store, and how one is set up as its name says.
type storeRow struct {
	name, url string
	open      func(t *testing.T) string
}

var storeRows = []storeRow{
	{"memory", "memory://", func(*testing.T) string { return "memory://" }},
	{"SQLite", "sqlite:///path/locks.db", func(t *testing.T) string { return "sqlite://" + t.TempDir() + "/locks.db" }},
	{"Redis, `appendfsync always`", "redis://host", func(t *testing.T) string {
		return "redis://" + servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "always").Addr
	}},
	{"Redis with Sentinel, the same", "redis+sentinel://h1,h2/primary", func(t *testing.T) string {
		s := servertest.RedisSentinel(t)
		s.Primary.Redis([]string{"CONFIG", "SET", "appendonly", "yes", "appendfsync", "always"})
		return "redis+sentinel://" + s.Sentinel.Addr + "/" + s.Name
	}},
	{"Redis Cluster, the same", "redis+cluster://h1,h2", func(t *testing.T) string {
		return "redis+cluster://" + servertest.RedisCluster(t, "--appendonly", "yes", "--appendfsync", "always")[0].Addr
	}},
	{"Redis, nothing on disk", "redis://host", func(t *testing.T) string { return "redis://" + servertest.Redis(t).Addr }},
	{"Redis, as other libraries keep locks", "redis://host?layout=setnx", func(t *testing.T) string {
		return "redis://" + servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "always").Addr + "?layout=setnx"
	}},
	{"Redlock: three or five Redis, `appendfsync always`", "redlock://h1,h2,h3", func(t *testing.T) string {
		return redlock(t, "--appendonly", "yes", "--appendfsync", "always")
	}},
	{"Redlock, nothing on disk", "redlock://h1,h2,h3", func(t *testing.T) string { return redlock(t) }},
	{"memcached with `-M`", "memcached://host", func(t *testing.T) string { return "memcached://" + servertest.Memcached(t, "-M").Addr }},
	{"memcached with `-M`, as other programs keep locks", "memcached://host?layout=plain", func(t *testing.T) string {
		return "memcached://" + servertest.Memcached(t, "-M").Addr + "?layout=plain"
	}},
	{"Tair", "tair://host", func(t *testing.T) string {
		return "tair://" + servertest.Tair(t, "--appendonly", "yes", "--appendfsync", "always").Addr
	}},
	{"Tair, as other libraries keep locks", "tair://host?layout=setnx", func(t *testing.T) string {
		return "tair://" + servertest.Tair(t, "--appendonly", "yes", "--appendfsync", "always").Addr + "?layout=setnx"
	}},
	{"Tair, in TairStrings", "tair://host?layout=exset", func(t *testing.T) string {
		return "tair://" + servertest.Tair(t, "--appendonly", "yes", "--appendfsync", "always").Addr + "?layout=exset"
	}},
	{"PostgreSQL", "postgres://host/database", func(t *testing.T) string {
		return "postgres://postgres@" + servertest.Postgres(t, "fsync = on").Addr + "/postgres"
	}},
	{"PostgreSQL with a synchronous standby", "postgres://h1,h2/database", func(t *testing.T) string {
		primary, _ := servertest.PostgresPair(t)
		return "postgres://postgres@" + primary.Addr + "/postgres"
	}},
	{"PostgreSQL, advisory locks of one connection", "postgres://host/database?mode=session", func(t *testing.T) string {
		return "postgres://postgres@" + servertest.Postgres(t, "fsync = on").Addr + "/postgres?mode=session"
	}},
	{"MySQL or MariaDB", "mysql://host/database", func(t *testing.T) string {
		return "mysql://root@" + servertest.MySQL(t, "innodb_flush_log_at_trx_commit=1").Addr + "/mysql"
	}},
	{"MySQL or MariaDB, user-level locks of one connection", "mysql://host/database?mode=session", func(t *testing.T) string {
		return "mysql://root@" + servertest.MySQL(t, "innodb_flush_log_at_trx_commit=1").Addr + "/mysql?mode=session"
	}},
	{"PostgreSQL, the table of ShedLock", "postgres://host/database?layout=shedlock", func(t *testing.T) string {
		return "postgres://postgres@" + rowServer(t, `CREATE TABLE shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL,
			locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL)`) + "/postgres?layout=shedlock"
	}},
	{"PostgreSQL, `tb_distributed_lock`", "postgres://host/database?layout=tb_distributed_lock", func(t *testing.T) string {
		return "postgres://postgres@" + rowServer(t, `CREATE TABLE tb_distributed_lock (dl_id serial PRIMARY KEY, dl_method_name varchar(64) UNIQUE,
			dl_device_info varchar(100), dl_operate_time timestamptz)`) + "/postgres?layout=tb_distributed_lock"
	}},
	{"ZooKeeper, three servers", "zk://h1,h2,h3/chroot", func(t *testing.T) string {
		return "zk://" + servertest.ZooKeeperEnsemble(t, 3)[0].Addr
	}},
	{"etcd, three members", "etcd://h1,h2,h3", func(t *testing.T) string {
		return "etcd://" + servertest.EtcdCluster(t, 3)[0].Addr
	}},
	{"Consul, three servers", "consul://host", func(t *testing.T) string {
		return "consul://" + servertest.ConsulCluster(t, 3, map[string]any{"session_ttl_min": "10s"})[0].Addr
	}},
	{"Several of these, names spread over them", "shard://?stores=a=redis://h1;b=redis://h2", func(t *testing.T) string {
		stores := make([]string, 2)
		for i, name := range []string{"a", "b"} {
			stores[i] = name + "=redis://" + servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "always").Addr
		}
		return "shard://?stores=" + strings.Join(stores, ";")
	}},
}

// redlock starts three servers, and returns the URL of the quorum over them.
func redlock(t *testing.T, args ...string) string {
	t.Helper()
	var hosts []string
	for range 3 {
		hosts = append(hosts, servertest.Redis(t, args...).Addr)
	}
	return "redlock://" + strings.Join(hosts, ",")
}

// rowServer starts a database with a table of another library, and returns its address.
func rowServer(t *testing.T, create string) string {
	t.Helper()
	addr := servertest.Postgres(t).Addr
	db, err := sql.Open("pgx", "postgres://postgres@"+addr+"/postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), create); err != nil {
		t.Fatal(err)
	}
	return addr
}

func TestStoreTable(t *testing.T) {
	t.Parallel()
	var table, notes strings.Builder
	traitsOf := map[string]driver.Traits{}
	help, _, err := reference().Find([]string{"break"})
	if err != nil {
		t.Fatal(err)
	}
	table.WriteString("| store | good for | claims survive a restart / a failover | tokens rise | locks | changes while it is held | waiters hear by | leases end by the clock of the |\n")
	table.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, row := range storeRows {
		d, err := driver.Open(t.Context(), row.open(t))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		traits := d.Traits()
		traitsOf[row.name] = traits
		first := strings.TrimSuffix(strings.Fields(row.name)[0], ",")
		if traits.Asks && row.name != "memory" && !strings.Contains(help.Long, first) { // memory ends with its process
			t.Errorf("the help of stile break does not say that --ask works with %s", row.name)
		}
		fmt.Fprintf(&table, "| %s | %s | %s / %s | %s | %s | %s | %s | %s |\n", row.name, trial.Purpose(traits), yes(traits.Restart), yes(traits.Failover),
			traits.Fencing, trial.Kinds(traits), changes(traits), traits.Wake, traits.Clock)
		fmt.Fprintf(&notes, "\n## %s\n\n`%s`\n\n", row.name, row.url)
		for _, n := range traits.Remarks() {
			fmt.Fprintf(&notes, "- %s.\n", strings.ToUpper(n[:1])+strings.TrimSuffix(n[1:], "."))
		}
		if len(traits.Remarks()) == 0 {
			notes.WriteString("Nothing more.\n")
		}
	}
	rows := [][]string{{"you have", "you need a lock", "the locks", "take"}, {"---", "---", "---", "---"}}
	for _, c := range choices {
		traits, ok := traitsOf[c.row]
		if !ok {
			t.Fatalf("there is no row %q", c.row)
		}
		need := "to be right, or to save work"
		if !trial.Trusted(traits) {
			need = "**only to save work**"
		}
		rows = append(rows, []string{c.have, need, survival(traits), "`" + c.url + "`"})
	}
	var choice, chinese strings.Builder
	for _, cells := range rows {
		fmt.Fprintf(&choice, "| %s |\n", strings.Join(cells, " | "))
		fmt.Fprintf(&chinese, "| %s |\n", strings.Join(inChinese(t, cells), " | "))
	}
	holds(t, readme, "choice", choice.String())
	holds(t, readmeChinese, "choice", chinese.String())
	holds(t, promises, "stores", table.String())
	holds(t, promises, "remarks", notes.String())
}

// survival says in a few words what the claims live through.
func survival(t driver.Traits) string {
	switch {
	case t.Failover:
		return "survive a failover"
	case t.Restart && t.Clock == "host":
		return "survive crashed processes"
	case t.Restart:
		return "survive a restart"
	}
	return "**are gone after a restart**"
}

// changes are what a lock can become without being given up.
func changes(t driver.Traits) string {
	switch {
	case !t.Amends:
		return "nothing"
	case !t.Shared:
		return "its value"
	}
	return "its value, writer to reader"
}

// holds fails if a document does not have the text at the place of that name, or writes it there.
func holds(t *testing.T, path, place, want string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+place+": go test ./cmd/stile -run "+t.Name()+" -update -->\n", "<!-- end of "+place+" -->\n"
	before, rest, ok1 := strings.Cut(string(text), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place %s", path, place)
	}
	if *updateDocs {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("%s: %s says\n%swant\n%sgo test ./cmd/stile -run %s -update writes it", path, place, got, want, t.Name())
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
