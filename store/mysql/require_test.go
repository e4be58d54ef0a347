package mysql

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/drive"
	"github.com/stilelock/stile/internal/servertest"
)

// A client that requires a trait of the server loses its leases when it reconnects to a server with other settings. A server
// that logs statements refuses renewals by itself.
func TestRequiredAfterReconnect(t *testing.T) {
	t.Parallel()
	s := servertest.MySQL(t, "innodb_flush_log_at_trx_commit=1", "log_bin=log", "server_id=1", "sync_binlog=1", "binlog_format=MIXED")
	admin, name := raw(t, s, ""), database(t, s)
	for _, tt := range []struct {
		setting, bad, good string
		require            driver.Trait
		says               string
	}{
		{"innodb_flush_log_at_trx_commit", "2", "1", driver.TraitRestart, "innodb_flush_log_at_trx_commit 2"},
		{"sync_binlog", "0", "1", driver.TraitRestart, "sync_binlog 0"},
		{"read_only", "ON", "OFF", driver.TraitFit, "use the address of the primary"},
	} {
		t.Run(tt.setting, func(t *testing.T) {
			set := func(value string) {
				mustExec(t, admin, "SET GLOBAL "+tt.setting+" = "+value)
				killConnections(t, admin, name)
			}
			defer set(tt.good)
			drive.Unfit(t, &drive.Worsening{
				URL: "mysql://root@" + s.Addr + "/" + name, Require: tt.require, Says: tt.says, TTL: 15 * time.Second,
				Worsen: func() { set(tt.bad) },
			})
		})
	}
}

// killConnections ends the connections to a database.
func killConnections(t *testing.T, admin *sql.DB, database string) {
	t.Helper()
	var ids sql.NullString
	row := admin.QueryRowContext(timely(t), "SELECT GROUP_CONCAT(ID) FROM information_schema.PROCESSLIST WHERE DB = ?", database)
	if err := row.Scan(&ids); err != nil {
		t.Fatal(err)
	}
	for id := range strings.SplitSeq(ids.String, ",") {
		_, _ = admin.ExecContext(timely(t), "KILL "+id) // it may have ended by itself
	}
}

// If the server becomes a node of a Galera cluster, its clients lose their locks, and no more claims are let in, with tables
// or user-level locks.
func TestRequiredAfterGalera(t *testing.T) {
	t.Parallel()
	if !maria(t, raw(t, server, "")) {
		t.Log("MySQL has no Galera")
		return
	}
	s := servertest.MySQL(t, durable...)
	name := database(t, s)
	session, err := stile.Open(timely(t), "mysql://root@"+s.Addr+"/"+name+"?mode=session",
		&stile.Options{Require: []driver.Trait{driver.TraitFit}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	drive.Unfit(t, &drive.Worsening{
		URL: "mysql://root@" + s.Addr + "/" + name, Require: driver.TraitRestart, Says: "Galera", TTL: 45 * time.Second,
		Worsen: func() {
			s.RestartWith("--wsrep_on=ON", "--wsrep_provider=/usr/lib/galera/libgalera_smm.so", "--wsrep_cluster_address=gcomm://",
				"--wsrep_node_address=127.0.0.1", "--binlog_format=ROW",
				fmt.Sprintf("--wsrep_provider_options=gmcast.listen_addr=tcp://127.0.0.1:%d;gcache.size=1M", servertest.Port(t)))
		},
	})
	drive.Shuts(t, session)
}
