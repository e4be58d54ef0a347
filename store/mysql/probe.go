package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

const (
	probeWithin = 10 * time.Second

	smallestPacket = 64 << 10 // the least max_allowed_packet
	largestText    = 1 << 20
)

// Facts are the server's variables, by name.
type facts map[string]string

func (f facts) on(name string) bool {
	switch strings.ToUpper(f[name]) {
	case "ON", "1", "YES", "TRUE":
		return true
	}
	return false
}

func (f facts) maria() bool { return strings.Contains(f["version"], "MariaDB") }

func (f facts) product() string {
	if f.maria() {
		return "MariaDB"
	}
	return "MySQL"
}

// release returns the first two numbers of the version: 1011 for 10.11.
func (f facts) release() int {
	version := f["version"]
	if f.maria() {
		version = strings.TrimPrefix(version, "5.5.5-") // old MariaDBs have this prefix for replicas
	}
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, _ := strconv.Atoi(major)
	b, _ := strconv.Atoi(minor)
	return 100*a + b
}

// The first supported versions.
const (
	oldestMySQL = 507
	oldestMaria = 1004
)

// fewRows is the largest limit on a query's rows that is too low. A server without a limit reports its largest number, which
// depends on its build.
const fewRows = 1<<32 - 1

// skips reports whether the server has SKIP LOCKED.
func (f facts) skips() bool {
	const mySQL, maria = 800, 1006
	if f.maria() {
		return f.release() >= maria
	}
	return f.release() >= mySQL
}

// probe asks for the server's promises and makes the tables.
func (s *store) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	f, err := s.askFacts(ctx)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return driver.Refused(err)
	}
	packet, _ := strconv.Atoi(f["max_allowed_packet"])
	s.limit = min(packet/2, largestText)
	if s.batches, err = s.takes(ctx, "DO 1; DO 2"); err != nil {
		return err
	}
	if s.batches && f.maria() {
		if s.blocks, err = s.takes(ctx, "BEGIN NOT ATOMIC DO 1; DO 2; END"); err != nil {
			return err
		}
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	s.skips = f.skips()
	s.promised.Set(s.promise(f))
	return nil
}

// promises asks again for the promises of the address's present server. It does not choose again how to send statements.
func (s *store) promises(ctx context.Context) (driver.Traits, error) {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	asks := s
	if s.owned != nil {
		asks = &store{db: s.owned.anew(), owned: s.owned, secret: s.secret, addr: s.addr, ctx: s.ctx}
		defer asks.db.Close()
	}
	f, err := asks.askFacts(ctx)
	if err != nil {
		return driver.Traits{}, err
	}
	return without(s.promise(f), f.check()), nil
}

// without removes from a promise the parts that a server which would now be refused cannot keep.
func without(t driver.Traits, refused error) driver.Traits {
	if refused != nil {
		t.Unfit("", "The server that the address leads to now would be refused: %v.", refused)
		t.Restart, t.Failover, t.Fencing = false, false, driver.NoFencing
	}
	return t
}

func (s *store) askFacts(ctx context.Context) (facts, error) {
	f := facts{}
	err := s.reading(ctx, func(ctx context.Context, conn *sql.Conn) error {
		for _, q := range []string{
			"SELECT 'sql_select_limit', @@sql_select_limit", // first, since it may cut the following rows
			"SHOW VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'wsrep_on', 'autocommit', " +
				"'read_only', 'super_read_only', 'innodb_read_only', 'transaction_read_only', 'tx_read_only', " +
				"'innodb_flush_log_at_trx_commit', 'innodb_doublewrite', 'log_bin', 'sync_binlog', 'binlog_format', " +
				"'rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_enabled', " +
				"'rpl_semi_sync_master_wait_point', 'rpl_semi_sync_source_wait_point', " +
				"'max_allowed_packet', 'idle_transaction_timeout', 'wait_timeout', " +
				"'group_replication_group_name', 'group_replication_single_primary_mode')",
			"SHOW GLOBAL STATUS WHERE Variable_name IN ('Slaves_connected', 'wsrep_cluster_size')",
		} {
			rows, err := conn.QueryContext(ctx, q)
			if err != nil {
				return err
			}
			for rows.Next() {
				var name, value string
				if err := rows.Scan(&name, &value); err != nil {
					rows.Close()
					return err
				}
				f[strings.ToLower(name)] = value
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil {
				return err
			}
		}
		return nil
	})
	return f, err
}

// takes reports whether the server runs a text from this pool, such as several statements.
func (s *store) takes(ctx context.Context, text string) (ok bool, err error) {
	err = s.reading(ctx, func(ctx context.Context, conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, text)
		ok = err == nil
		if number(err) == syntax {
			return nil
		}
		return err
	})
	return ok, err
}

// grouped reports whether the server is set up for a group (Group Replication of MySQL).
func (f facts) grouped() bool { return f["group_replication_group_name"] != "" }

// check returns the reason why locks cannot be kept in tables of this server.
func (f facts) check() error {
	if err := f.fit(); err != nil {
		return err
	}
	return f.mayWrite()
}

// fit returns the reason why locks cannot be kept on this server at all, with tables or without.
func (f facts) fit() error {
	oldest := oldestMySQL
	if f.maria() {
		oldest = oldestMaria
	}
	for _, other := range []string{"TiDB", "Vitess", "OceanBase"} {
		if strings.Contains(f["version"]+f["version_comment"], other) {
			return fmt.Errorf("this is %s, and these locks rely on the row locks of InnoDB", other)
		}
	}
	switch limit, err := strconv.ParseUint(f["sql_select_limit"], 10, 64); {
	case err == nil && limit < fewRows || f["version"] == "":
		return fmt.Errorf("the server answers only a part of the rows of a query (sql_select_limit %s), "+
			"so that claims could be overlooked: the pool must not set it", f["sql_select_limit"])
	case f.release() < oldest:
		return fmt.Errorf("the server is too old: it is %s %.20q, these locks need %d.%d",
			f.product(), f["version"], oldest/100, oldest%100)
	case f.on("wsrep_on"):
		return errors.New("the server is a node of a Galera cluster (wsrep_on), " +
			"which does not lock rows on its other nodes and has lost committed transactions: " +
			"two clients could hold one lock; use a single server")
	case f.grouped() && !f.on("group_replication_single_primary_mode"):
		return errors.New("the server is in a group with several primaries (Group Replication), " +
			"which do not lock rows on each other: two clients could hold one lock; " +
			"set group_replication_single_primary_mode = ON and use the address of the primary")
	}
	return nil
}

var errReadOnly = errors.New("the server is read-only (read_only), as a replica is: use the address of the primary")

func (f facts) readOnly() bool {
	return f.on("read_only") || f.on("super_read_only") || f.on("innodb_read_only") || strings.HasPrefix(f["read_only"], "NO_LOCK")
}

// mayWrite returns the reason why the server refuses to write locks, or would change them.
func (f facts) mayWrite() error {
	packet, _ := strconv.Atoi(f["max_allowed_packet"])
	switch {
	case f.readOnly():
		return errReadOnly
	case f.on("transaction_read_only") || f.on("tx_read_only"):
		return errors.New("transactions are read-only here (transaction_read_only)")
	case !f.on("autocommit"):
		return errors.New("autocommit is off in this pool, and whoever polls in one long transaction sees nothing new")
	case f.on("log_bin") && f["binlog_format"] == "STATEMENT":
		return errors.New("the server logs statements (binlog_format), " +
			"which it cannot do for transactions that are read committed, as these are: it must be MIXED or ROW")
	case packet < smallestPacket:
		return fmt.Errorf("the server takes %d bytes at once (max_allowed_packet), and locks need %d",
			packet, smallestPacket)
	}
	return nil
}

// promise returns the traits of this server with this pool. If the pool sends statements one by one, a wakeup between two
// sleeps is lost.
func (s *store) promise(f facts) driver.Traits {
	t := f.promise(s.batches)
	t.HearsBreak = s.batches && s.hasConnToSpare()
	return t
}

// promise returns the traits of this server.
func (f facts) promise(batches bool) driver.Traits {
	t := driver.Traits{
		Store: "mysql", Ordered: true, Shared: true, Permits: true, Delay: true, Amends: true, Fencing: driver.DurableFencing,
		Restart: true, Clock: "server", Wake: "poll",
		MinTTL: 100 * time.Millisecond, MaxTTL: driver.MaxTTL, Granularity: time.Millisecond,
	}
	t.Server = fmt.Sprintf("%s %d.%d", f.product(), f.release()/100, f.release()%100)
	if f["innodb_flush_log_at_trx_commit"] != "1" || strings.EqualFold(f["innodb_doublewrite"], "OFF") ||
		f.on("log_bin") && f["sync_binlog"] != "1" {
		t.Warn("innodb_flush_log_at_trx_commit 1, innodb_doublewrite ON, sync_binlog 1", "The server does not write each commit to the disk "+
			"(innodb_flush_log_at_trx_commit %s, innodb_doublewrite %s, sync_binlog %s): "+
			"a crash of its host can lose claims; tickets then rise while its clock is right.",
			f["innodb_flush_log_at_trx_commit"], f["innodb_doublewrite"], f["sync_binlog"])
		t.Restart, t.Fencing = false, driver.ClockFencing
	}
	switch {
	case !f.on("log_bin"):
		t.Note("There is no replica, since the server writes no binary log.")
	case f.maria() && f["slaves_connected"] == "0":
		t.Note("There is no replica now.")
	case f.lossless():
		t.Note("Commits wait for a semi-synchronous replica, unless it is late " +
			"(the time-out of semi-synchronous replication): only one of those may be promoted.")
		t.Failover, t.Fencing = true, driver.ClockFencing
	default:
		t.Warn("semi-synchronous replication with AFTER_SYNC", "A replica can follow late (there is a binary log), so a failover can lose the last claims "+
			"and let two hold a lock; tickets then rise as long as the clocks agree.")
		t.Fencing = driver.ClockFencing
	}
	if f.grouped() {
		t.Note("The server is in a group with one primary (Group Replication): " +
			"a primary that is new can answer before it has the last claims (group_replication_consistency), " +
			"and nobody may make the others primaries too.")
	}
	if !batches {
		t.Warn("multiStatements=true", "The pool does not send several statements at once, so each verb takes more round trips.")
	}
	if !f.skips() {
		t.Warn("MySQL 8.0 or MariaDB 10.6", "The server has no SKIP LOCKED: "+
			"a client that stands still in the middle of a request on one name delays the renewal of other names "+
			"by up to 5 s, and rows of names that LockTx has locked stay.")
	}
	t.Note("The client that releases wakes the next one by KILL QUERY. Where no wake-up arrives, the next one polls, every 30 ms at most.")
	t.Note("Leases end by the server's wall clock in UTC: a step of it ends them early or late. Tickets rise all the same.")
	t.Note("A crash of the server can bring back a lock that was released a moment before, until its lease ends.")
	return t
}

// lossless reports whether a commit is on a replica before anyone sees it.
func (f facts) lossless() bool {
	for _, role := range []string{"master", "source"} {
		if f.on("rpl_semi_sync_"+role+"_enabled") && f["rpl_semi_sync_"+role+"_wait_point"] == "AFTER_SYNC" {
			return true
		}
	}
	return false
}
