//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/store/postgres" // the scheme postgres
)

const (
	pgSession  = "stile, mode=session"
	pgLock     = "pglock"
	pgAdvisory = "advisory lock"
	pgBare     = "bare rows"
	pgNotice   = "bare NOTIFY"
)

var pgContended = []string{ours, pgSession, pgLock, pgAdvisory}

var postgresArena = &arena{
	key: "postgres", page: "docs/evidence/bench/postgres.md", server: "PostgreSQL server", conditions: "which does not wait for its disk",
	start:   func(t servertest.TB) *servertest.Server { return servertest.Postgres(t) },
	version: func(s *servertest.Server) string { return "PostgreSQL " + pgShow(s, "SHOW server_version") },
	count:   pgCounts,
	lag:     11 * time.Second, // how late idle sessions report
	contenders: append(stilesAt(pgURL, nil),
		contender{pgSession, "advisory locks of one connection, with a lease and turns", true, nil, func(addr string, ttl time.Duration) (library, error) {
			return openStile(pgURL(addr)+"?mode=session", ttl, 0, 0)
		}},
		contender{pgLock, "a row with a lease for each lock, over lib/pq; lease as ours, renewed every third of it", true, nil, openPgLock},
		contender{pgAdvisory, "pg_advisory_lock and pg_advisory_unlock on a connection of a pgx pool; no lease, and it goes with the connection", true, nil, openAdvisory},
		contender{pgBare, "INSERT of a row and DELETE of it through pgx, and nothing else: no lock, but what two statements cost", true, nil, openBare},
		contender{bareTurns, "no lock: a channel hands a turn on between goroutines, while the process has a row as in the bare rows, which it deletes and " +
			"inserts anew every 2 ms, as stile's turns end; no other process waits for it", true, nil, turnsOf(openBare)},
		contender{pgNotice, "no library: a row that is deleted with a NOTIFY, in one statement, and a process that listens; no lock, but what a " +
			"hand-over by rows costs", true, nil, openNotice},
	),
	peers:       []string{"cirello.io/pglock", "github.com/jackc/pgx/v5", "github.com/lib/pq"},
	note:        fmt.Sprintf("Pools have %d connections. A request is a transaction that the server counts.", contentionSize),
	uncontended: []string{ours, pgSession, pgLock, pgAdvisory, pgBare},
	contended:   pgContended,
	measures: func(b *bench) []*measure {
		return []*measure{b.alone(), b.eight(), b.apart(), b.hot(bareTurns), b.fleet(), b.handOver(pgNotice), b.waiting()}
	},
	targets: []target{
		{text: "uncontended lock+unlock, 1 goroutine: p50 at most 1.05× that of an INSERT and a DELETE",
			measure: "alone", row: ours, column: "p50", unit: "µs", against: rivals("alone", pgBare), most: true, bound: 1.05, bare: pgBare},
		{text: "64 goroutines on 64 names: at least 0.85× the throughput of an INSERT and a DELETE",
			measure: "apart", row: ours, column: "rate", unit: "/s", against: rivals("apart", pgBare), bound: 0.85, bare: pgBare},
		{text: "one hot name, 64 goroutines of one process: at least 50× the best of them, in hand-overs",
			measure: "hot", row: ours, column: "passed", unit: "/s", against: rivals("hot", pgLock, pgAdvisory), bound: 50, bare: bareTurns},
		{text: "hand-over to one waiter in another process: p50 at most 2× that of an advisory lock",
			measure: "handover", row: ours, column: "p50", unit: "µs", against: rivals("handover", pgAdvisory), most: true, bound: 2, bare: pgNotice},
		{text: "100 waiters of one process on a held name: under 2 statements/s",
			measure: "waiting", row: ours, column: "requests", unit: "/s", fixed: 2, most: true, bound: 1, strict: true},
	},
}

func pgURL(addr string) string { return "postgres://postgres@" + addr + "/postgres" }

// pgShow returns the text of a statement's answer.
func pgShow(s *servertest.Server, statement string) string {
	ctx, cancel := context.WithTimeout(context.Background(), givenUp)
	defer cancel()
	c, err := pgx.Connect(ctx, pgURL(s.Addr))
	if err != nil {
		return err.Error()
	}
	defer c.Close(ctx)
	var text string
	if err := c.QueryRow(ctx, statement).Scan(&text); err != nil {
		return err.Error()
	}
	return text
}

// pgCounts counts transactions; a single statement is one. The program's own queries go to another database.
func pgCounts(s *servertest.Server) (counts, error) {
	ctx, cancel := context.WithTimeout(context.Background(), givenUp)
	defer cancel()
	c, err := pgx.Connect(ctx, "postgres://postgres@"+s.Addr+"/template1")
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	var n int64
	err = c.QueryRow(ctx, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'").Scan(&n)
	return counts{"request": n}, err
}
