package mysql

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/driver/drivertest"
	"github.com/stilelock/stile/internal/servertest"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	tests := []struct{ url, says string }{
		{"mysql://127.0.0.1:1/db?prefix=a-b", "prefix"},
		{"mysql://127.0.0.1:1/db?prefix=" + strings.Repeat("x", 33), "prefix"},
		{"mysql://127.0.0.1:1/db?nonsense=1", "unknown parameter"},
		{"mysql://127.0.0.1:1/db?pool_max_conns=0", "pool_max_conns"},
		{"mysql://127.0.0.1:1/db?dial_timeout=5", "dial_timeout"},
		{"mysql://127.0.0.1:1/db?tls=sometimes", "parameter tls"},
		{"mysql://127.0.0.1:1", "must name a database"},
		{"mariadb://127.0.0.1:1/a/b", "must name a database"},
		{"mysql://127.0.0.1:1,127.0.0.2:1/db", "one server"},
		{"mysql://127.0.0.1:1/db?layout=other", "layout"},
	}
	for _, tt := range tests {
		marks(t, refuses(t, tt.url, tt.says), true, false)
	}
	marks(t, refuses(t, "mysql://u:canary@127.0.0.1:1/db", "the connection to 127.0.0.1:1 failed", "refused"), true, true)
}

// No error shows a password, plain or escaped.
func TestPassword(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	user := "u" + name[5:20]
	mustExec(t, raw(t, server, ""), "CREATE USER "+user+" IDENTIFIED BY 'right'; GRANT ALL ON "+name+".* TO "+user)
	tests := []struct{ password, database, says string }{
		{"canary%2F1", name, "does not let the user in with this password"},
		{"canary%2F1", "canary%2F1", "must name a database"},
		{"right", "canary", "lacks a right"},
		{"", name, "Access denied"},
	}
	for _, tt := range tests {
		err := refuses(t, "mysql://"+user+":"+tt.password+"@"+server.Addr+"/"+tt.database, tt.says)
		marks(t, err, true, false)
		if strings.Contains(err.Error(), "canary/1") || strings.Contains(err.Error(), "canary%2F1") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
	open(t, "mariadb://"+user+":right@"+server.Addr+"/"+name)
}

// The error for a user who may not make tables names the necessary step, and the documented rights are enough.
func TestRights(t *testing.T) {
	t.Parallel()
	name := database(t, server)
	user := "u" + name[5:20]
	db := raw(t, server, name)
	mustExec(t, db, "CREATE USER "+user+"; GRANT SELECT ON "+name+".* TO "+user)
	url := "mysql://" + user + "@" + server.Addr + "/" + name
	err := refuses(t, url, "may not make the tables", "stile migrate --print", "CREATE command denied")
	marks(t, err, true, false)
	text, err := Schema("")
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, text)
	mustExec(t, db, text) // twice is harmless
	mustExec(t, db, "REVOKE ALL, GRANT OPTION FROM "+user+"; GRANT SELECT, UPDATE ON stile_meta TO "+user)
	for _, table := range []string{"name", "claim", "tx"} {
		mustExec(t, db, "GRANT SELECT, INSERT, UPDATE, DELETE ON stile_"+table+" TO "+user)
	}
	d := open(t, url)
	a, b := claim("name", "a"), claim("name", "b")
	enter(t, d, a)
	enter(t, d, b)
	if err := renew(t, d, a); err != nil {
		t.Errorf("renewal = %v", err)
	}
	leave(t, d, a)
	await(t, d, b)
	if _, err := d.Break(timely(t), &driver.BreakRequest{Name: "name"}); err != nil {
		t.Errorf("break = %v", err)
	}
	if n, err := d.store.clean(timely(t), -1<<40, 10); n != 1 || err != nil {
		t.Errorf("clean = %d, %v; want 1", n, err)
	}
	if err := LockTx(timely(t), begin(t, d.store.db, sql.LevelDefault), "name"); err != nil {
		t.Errorf("lock in a transaction = %v", err)
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	if _, err := Schema("a b"); err == nil {
		t.Error("a prefix with a blank is accepted")
	}
	tests := []struct {
		name, do string
		says     string
	}{
		{"newer", "UPDATE stile_meta SET version = 99", "made by a newer stile: their version is 99"},
		{"older", "UPDATE stile_meta SET version = 0", "made by an older stile: their version is 0"},
		{"foreign", "DROP TABLE stile_meta; CREATE TABLE stile_meta (x INT)", driver.ErrForeign.Error()},
		{"engine", "ALTER TABLE stile_claim ENGINE = MyISAM", "kept by MyISAM, and locks need InnoDB"},
		{
			"emptied",
			"INSERT INTO stile_name (`hash`, `name`, `last`, `head`) VALUES (REPEAT('x', 32), 'x', 1, 1);" +
				"TRUNCATE stile_meta",
			"emptied",
		},
		{"one is missing", "DROP TABLE stile_tx", ""},
		{"all emptied", "TRUNCATE stile_meta", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			name := database(t, server)
			url := "mysql://root@" + server.Addr + "/" + name
			open(t, url).Close()
			mustExec(t, raw(t, server, name), tt.do)
			if tt.says != "" {
				marks(t, refuses(t, url, tt.says), true, false)
				return
			}
			enter(t, open(t, url), claim("name", "a"))
		})
	}
}

// Many processes start at once, on a database without tables.
func TestManyMakeTables(t *testing.T) {
	t.Parallel()
	url := fresh(t, server)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			d, err := driver.Open(timely(t), url)
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			defer d.Close()
			if p, err := d.Enter(timely(t), claim(fmt.Sprint("name ", i), "a")); err != nil || !p.Holds {
				t.Errorf("enter = %+v, %v", p, err)
			}
		})
	}
	all.Wait()
}

// A server is refused if other servers of its cluster may write too: MariaDB with Galera, or MySQL in a group.
func TestClusterRefused(t *testing.T) {
	t.Parallel()
	if !maria(t, raw(t, server, "")) {
		group := func(single string) string {
			s := servertest.MySQL(t, "plugin-load-add=group_replication.so", "server-id=1",
				"group_replication_group_name=aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", "group_replication_single_primary_mode="+single)
			mustExec(t, raw(t, s, ""), "SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF") // as on a primary
			return fresh(t, s)
		}
		marks(t, refuses(t, group("OFF"), "several primaries", "two clients could hold one lock"), true, false)
		notes := strings.Join(open(t, group("ON")).Traits().Remarks(), "\n")
		if !strings.Contains(notes, "Group Replication") {
			t.Errorf("with one primary, the notes are %s; want one on Group Replication", notes)
		}
		return
	}
	s := servertest.MySQL(t, "wsrep_on=ON", "wsrep_provider=/usr/lib/galera/libgalera_smm.so",
		"wsrep_cluster_address=gcomm://", "wsrep_node_address=127.0.0.1", "binlog_format=ROW",
		fmt.Sprintf("wsrep_provider_options=gmcast.listen_addr=tcp://127.0.0.1:%d;gcache.size=1M", servertest.Port(t)))
	admin := raw(t, s, "")
	servertest.Until(t, "the cluster of one serves", func() bool {
		var name, value string
		return admin.QueryRow("SHOW STATUS LIKE 'wsrep_ready'").Scan(&name, &value) == nil && value == "ON"
	})
	url := fresh(t, s)
	marks(t, refuses(t, url, "Galera", "two clients could hold one lock"), true, false)
	marks(t, refuses(t, url+"mode=session", "Galera", "two clients could hold one lock"), true, false)
}

// A server with other defaults everywhere still keeps the contract.
func TestOtherDefaults(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t,
		"innodb_flush_log_at_trx_commit=0", "default-time-zone=-05:30", "transaction-isolation=SERIALIZABLE",
		"sql-mode=ANSI,NO_BACKSLASH_ESCAPES,TRADITIONAL,PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION",
		"character-set-server=utf16", "lower-case-table-names=1", "log-bin=log", "server-id=1", "binlog-format=MIXED",
		"autocommit=0", "max-allowed-packet=64K", "innodb-lock-wait-timeout=1", "init-connect=SET time_zone = '+13:00'")
	url := fresh(t, s)
	drivertest.Model(t, drivertest.Store{Open: opener(url)}, 2, 400)
	d := open(t, url)
	c := claim("name", "big")
	c.Record = strings.Repeat("\x00", driver.MaxRecord)
	enter(t, d, c)
	if got := d.Traits(); got.Restart || got.Fencing != driver.ClockFencing {
		t.Errorf("the traits of a server that does not write each commit are %+v", got)
	}
	db, err := sql.Open("mysql", "root@tcp("+s.Addr+")/mysql")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := New(timely(t), db, nil); err == nil {
		t.Error("a pool without autocommit is accepted")
	} else {
		says(t, err, "autocommit")
	}
}

// A pool that cuts the answers to queries is refused, and a URL does not depend on the server's own limit.
func TestLimitedSelects(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"1", "30", "1000"} {
		db, err := sql.Open("mysql", "root@tcp("+server.Addr+")/"+database(t, server)+"?multiStatements=true&sql_select_limit="+limit)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := New(timely(t), db, nil); err == nil {
			d.Close()
			t.Errorf("a pool with sql_select_limit=%s is accepted", limit)
		} else {
			says(t, err, "sql_select_limit "+limit)
		}
		db.Close()
	}
}

// good returns facts of a server on which locks can be kept, with some changes.
func good(changes ...string) facts {
	f := facts{
		"version": "10.11.19-MariaDB-0+deb12u1", "autocommit": "ON", "max_allowed_packet": "16777216",
		"read_only": "OFF", "log_bin": "OFF", "sync_binlog": "0", "binlog_format": "MIXED", "wsrep_on": "OFF",
		"innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "ON",
	}
	for _, change := range changes {
		name, value, _ := strings.Cut(change, "=")
		f[name] = value
	}
	return f
}

func TestCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		change, says string
	}{
		{"version=5.6.51", "too old: it is MySQL"},
		{"version=", "sql_select_limit"},
		{"sql_select_limit=30", "sql_select_limit 30"},
		{"version=5.5.5-10.3.39-MariaDB", "too old: it is MariaDB"},
		{"version=8.0.11-TiDB-v7.5.0", "TiDB"},
		{"wsrep_on=ON", "Galera"},
		{"read_only=ON", "replica"},
		{"read_only=NO_LOCK", "replica"},
		{"super_read_only=ON", "replica"},
		{"innodb_read_only=ON", "replica"},
		{"tx_read_only=ON", "transactions are read-only"},
		{"autocommit=OFF", "autocommit"},
		{"max_allowed_packet=1024", "max_allowed_packet"},
	}
	for _, tt := range tests {
		says(t, good(tt.change).check(), tt.says)
	}
	says(t, good("log_bin=ON", "binlog_format=STATEMENT").check(), "binlog_format")
	group := []string{"version=8.4.3", "log_bin=ON", "group_replication_group_name=aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"}
	const single = "group_replication_single_primary_mode"
	says(t, good(append(group, single+"=OFF")...).check(), "several primaries", single)
	for _, one := range [][]string{append(group, single+"=ON"), {"group_replication_group_name=", single + "=OFF"}} {
		if err := good(one...).check(); err != nil {
			t.Errorf("%v is refused: %v", one, err)
		}
	}
	for _, version := range []string{"5.7.44-log", "8.4.3", "9.1.0", "10.11.19-MariaDB", "5.5.5-11.8.2-MariaDB-ubu2404"} {
		if err := good("version=" + version).check(); err != nil {
			t.Errorf("%s is refused: %v", version, err)
		}
	}
}

func TestPromise(t *testing.T) {
	t.Parallel()
	logs := func(changes ...string) []string { return append([]string{"log_bin=ON", "sync_binlog=1"}, changes...) }
	tests := []struct {
		changes  []string
		fencing  driver.Grade
		restart  bool
		failover bool
		note     string
	}{
		{nil, driver.DurableFencing, true, false, "There is no replica"},
		{[]string{"innodb_flush_log_at_trx_commit=2"}, driver.ClockFencing, false, false, "does not write each commit"},
		{[]string{"innodb_doublewrite=OFF"}, driver.ClockFencing, false, false, "does not write each commit"},
		{[]string{"log_bin=ON", "sync_binlog=0", "slaves_connected=0"}, driver.ClockFencing, false, false, "sync_binlog 0"},
		{logs("slaves_connected=0"), driver.DurableFencing, true, false, "There is no replica now"},
		{logs("slaves_connected=1"), driver.ClockFencing, true, false, "A replica can follow late"},
		{logs("version=8.4.3"), driver.ClockFencing, true, false, "A replica can follow late"},
		{
			logs("version=8.4.3", "group_replication_group_name=a", "group_replication_single_primary_mode=ON"),
			driver.ClockFencing, true, false, "Group Replication",
		},
		{
			logs("version=8.4.3", "rpl_semi_sync_source_enabled=ON", "rpl_semi_sync_source_wait_point=AFTER_SYNC"),
			driver.ClockFencing, true, true, "semi-synchronous",
		},
		{
			logs("slaves_connected=1", "rpl_semi_sync_master_enabled=ON", "rpl_semi_sync_master_wait_point=AFTER_COMMIT"),
			driver.ClockFencing, true, false, "can follow late",
		},
	}
	for _, tt := range tests {
		got := good(tt.changes...).promise(true)
		noted := strings.Contains(strings.Join(got.Remarks(), "\n"), tt.note)
		if got.Fencing != tt.fencing || got.Restart != tt.restart || got.Failover != tt.failover || !noted {
			t.Errorf("%v: %+v; want fencing %v, restart %v, failover %v and a note %q",
				tt.changes, got, tt.fencing, tt.restart, tt.failover, tt.note)
		}
	}
}
