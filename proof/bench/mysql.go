//go:build unix

package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	_ "github.com/go-sql-driver/mysql" // for the contenders, and to count
	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/store/mysql" // the scheme mysql
)

const (
	getLock   = "GET_LOCK"
	mysqlBare = "bare rows"
	bareKill  = "bare KILL"

	mysqlSession = "stile, mode=session"
)

var mysqlArena = &arena{
	key: "mysql", page: "docs/evidence/bench/mysql.md", server: "MariaDB server", conditions: "which does not wait for its disk",
	start: func(t servertest.TB) *servertest.Server {
		s := servertest.MySQL(t)
		if _, err := mysqlAsk(s, "CREATE DATABASE bench"); err != nil {
			t.Fatalf("%v", err)
		}
		return s
	},
	version: func(s *servertest.Server) string {
		version, err := mysqlAsk(s, "SELECT VERSION()")
		if err != nil {
			version = err.Error()
		}
		return "MariaDB " + version
	},
	count: mysqlCounts,
	contenders: append(stilesAt(mysqlURL, nil),
		contender{mysqlSession, "user-level locks of one connection, with a lease and turns", true, nil, func(addr string, ttl time.Duration) (library, error) {
			return openStile(mysqlURL(addr)+"?mode=session", ttl, 0, 0)
		}},
		contender{getLock, "GET_LOCK and RELEASE_LOCK on a connection of a pool; no lease, and it goes with the connection", true, nil, openGetLock},
		contender{mysqlBare, "INSERT of a row and DELETE of it, and nothing else: no lock, but what two statements cost", true, nil, openMySQLBare},
		contender{bareTurns, "no lock: a channel hands a turn on between goroutines, while the process has a row as in the bare rows, which it deletes and " +
			"inserts anew every 2 ms, as stile's turns end; no other process waits for it", true, nil, turnsOf(openMySQLBare)},
		contender{bareKill, "no library: a row that is deleted with a KILL QUERY of the next process's sleep, in one round trip, and that process looks who is " +
			"first; no lock, but what a hand-over by rows costs", true, nil, openMySQLKill},
	),
	peers:       []string{"github.com/go-sql-driver/mysql"},
	note:        fmt.Sprintf("Pools have %d connections. A request is a statement that the server counts.", contentionSize),
	uncontended: []string{ours, mysqlSession, getLock, mysqlBare},
	contended:   []string{ours, mysqlSession, getLock},
	measures: func(b *bench) []*measure {
		return []*measure{b.alone(), b.eight(), b.apart(), b.pair(b.arena.uncontended...), b.hot(bareTurns), b.fleet(), b.handOver(bareKill), b.waiting()}
	},
	targets: []target{
		{text: "uncontended lock+unlock, 1 goroutine: p50 at most 1.1× that of an INSERT and a DELETE",
			measure: "alone", row: ours, column: "p50", unit: "µs", against: rivals("alone", mysqlBare), most: true, bound: 1.1, bare: mysqlBare},
		{text: "one hot name, 64 goroutines of one process: at least 50×, in hand-overs",
			measure: "hot", row: ours, column: "passed", unit: "/s", against: rivals("hot", getLock), bound: 50, bare: bareTurns},
		{text: "one hot name, 8 processes × 8 goroutines, with turns off: at least 0.5× GET_LOCK's hand-overs between processes",
			measure: "fleet", row: noTurns, column: "crossed", unit: "/s", against: rivals("fleet", getLock), bound: 0.5, bare: getLock},
		{text: "hand-over to one waiter in another process: p50 at most 2× that of GET_LOCK",
			measure: "handover", row: ours, column: "p50", unit: "µs", against: rivals("handover", getLock), most: true, bound: 2, bare: bareKill},
		{text: "100 waiters of one process on a held name: at most 5 statements/s",
			measure: "waiting", row: ours, column: "requests", unit: "/s", fixed: 5, most: true, bound: 1},
	},
}

func mysqlURL(addr string) string { return "mysql://root@" + addr + "/bench" }

func mysqlAsk(s *servertest.Server, statement string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), givenUp)
	defer cancel()
	db, err := sql.Open("mysql", "root@tcp("+s.Addr+")/")
	if err != nil {
		return "", err
	}
	defer db.Close()
	var text, value string
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	for rows.Next() {
		into := []any{&text}
		if len(columns) == 2 {
			into = []any{&value, &text}
		}
		if err := rows.Scan(into...); err != nil {
			return "", err
		}
	}
	return text, rows.Err()
}

// mysqlCounts counts statements.
func mysqlCounts(s *servertest.Server) (counts, error) {
	text, err := mysqlAsk(s, "SHOW GLOBAL STATUS LIKE 'Questions'")
	if err != nil {
		return nil, err
	}
	var n int64
	_, err = fmt.Sscan(text, &n)
	return counts{"request": n}, err
}
