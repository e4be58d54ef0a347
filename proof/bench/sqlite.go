//go:build unix

package main

import (
	"path/filepath"

	"github.com/stilelock/stile/internal/servertest"
	_ "github.com/stilelock/stile/store/sqlite" // the scheme sqlite
)

const sqliteBare = "bare rows"

var sqliteArena = &arena{
	key: "sqlite", page: "docs/evidence/bench/sqlite.md", server: "SQLite file", conditions: "in a folder for temporary files", serverless: true,
	start: func(t servertest.TB) *servertest.Server {
		return &servertest.Server{Addr: filepath.Join(t.TempDir(), "locks.db")}
	},
	version: sqliteVersion,
	contenders: append(stilesAt(func(path string) string { return "sqlite://" + path }, nil),
		contender{
			sqliteBare, "INSERT of a row and DELETE of it, each a transaction, in a file of its own with the same pragmas: no lock, but what " +
				"two statements cost", false, nil, openSQLiteBare,
		},
		contender{
			sqlitePass, "no lock: in a file with the same pragmas, a row of each process, which a transaction deletes; the other sleeps in the kernel " +
				"(a futex) until then, and reads once", false, nil, openSQLitePass,
		},
	),
	peers:       []string{"modernc.org/sqlite"},
	note:        "The bare rows wait for other writers as SQLite does with busy_timeout.",
	uncontended: []string{ours, sqliteBare},
	contended:   []string{ours},
	measures: func(b *bench) []*measure {
		return []*measure{b.alone(), b.apart(), b.own(), b.hot(), b.fleet(), b.handOver(sqlitePass), b.start()}
	},
	targets: []target{
		{text: "uncontended, 1 goroutine: at least 0.7× an INSERT and a DELETE, in ops/s",
			measure: "alone", row: ours, column: "rate", unit: "/s", against: rivals("alone", sqliteBare), bound: 0.7, bare: sqliteBare},
		{text: "8 processes on names of their own: at least 0.7× an INSERT and a DELETE, in ops/s",
			measure: "own", row: ours, column: "rate", unit: "/s", against: rivals("own", sqliteBare), bound: 0.7, bare: sqliteBare},
		{text: "8 processes on names of their own: p99 at most 8 ms",
			measure: "own", row: ours, column: "p99", unit: "µs", fixed: 8000, most: true, bound: 1, bare: sqliteBare},
		{text: "hand-over to one waiter in another process: p50 at most 0.3 ms",
			measure: "handover", row: ours, column: "p50", unit: "µs", fixed: 300, most: true, bound: 1, bare: sqlitePass},
		{text: "`stile run x -- true` takes at most 8 ms",
			measure: "start", row: runsTrue, column: "p50", unit: "ms", fixed: 8, most: true, bound: 1, bare: linkedTrue},
		{text: "`stile version` takes at most 4 ms",
			measure: "start", row: tellsVersion, column: "p50", unit: "ms", fixed: 4, most: true, bound: 1, bare: linked},
	},
}
