//go:build unix

package main

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strconv"
	"time"

	_ "github.com/go-sql-driver/mysql" // the databases that have these tables
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/stilelock/stile/internal/servertest"
)

// A rowBase is a database with the tables of other libraries, made as their documentation says.
type rowBase struct {
	setting *setting
	jdbc    string // its URL for Java
	user    string
	url     string // its URL for stile, without a layout
	db      *sql.DB
}

// close closes the program's own connections to the database.
func (b *rowBase) close() { b.db.Close() }

// newRowBase creates the tables with some statements.
func (w *setting) newRowBase(t servertest.TB, b rowBase, driver, source string, statements ...string) *rowBase {
	t.Helper()
	var err error
	b.setting = w
	if b.db, err = sql.Open(driver, source); err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(b.close)
	for _, statement := range statements {
		if _, err := b.db.ExecContext(context.Background(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return &b
}

func (w *setting) postgresBase(t servertest.TB) *rowBase {
	t.Helper()
	addr := servertest.Postgres(t).Addr
	url := "postgres://postgres@" + addr + "/postgres?sslmode=disable"
	return w.newRowBase(t, rowBase{jdbc: "jdbc:postgresql://" + addr + "/postgres", user: "postgres", url: url}, "pgx", url,
		`CREATE TABLE shedlock (name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL, locked_at TIMESTAMP NOT NULL,
			locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))`)
}

// mariaDBBase sets the server's time zone far from UTC, and not by whole hours.
func (w *setting) mariaDBBase(t servertest.TB) *rowBase {
	t.Helper()
	addr := servertest.MySQL(t,
		"innodb_flush_log_at_trx_commit=0", "default-time-zone=+05:30", "character-set-server=utf8mb4").Addr
	base := rowBase{jdbc: "jdbc:mariadb://" + addr + "/locks", user: "root", url: "mysql://root@" + addr + "/locks?"}
	w.newRowBase(t, rowBase{}, "mysql", "root@tcp("+addr+")/", "CREATE DATABASE locks")
	return w.newRowBase(t, base, "mysql", "root@tcp("+addr+")/locks",
		`CREATE TABLE shedlock (name VARCHAR(64) NOT NULL, lock_until TIMESTAMP(3) NOT NULL,
			locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))`,
		`CREATE TABLE zoneless (name VARCHAR(64) COLLATE utf8mb4_bin NOT NULL, lock_until DATETIME(3) NOT NULL,
			locked_at DATETIME(3) NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))`,
		`CREATE TABLE tb_distributed_lock (dl_id INT NOT NULL AUTO_INCREMENT, dl_method_name VARCHAR(64) NOT NULL DEFAULT '',
			dl_device_info VARCHAR(100) NOT NULL DEFAULT '',
			dl_operate_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
			PRIMARY KEY (dl_id), UNIQUE KEY uq_method_name (dl_method_name) USING BTREE)`)
}

// A shedLock says how ShedLock is set up.
type shedLock struct {
	clock string        // the clock that counts: database or utc
	zone  string        // the program's time zone; "" means UTC
	ahead int           // how many milliseconds the program's clock is ahead
	more  string        // added to the database's URL
	table string        // "" means shedlock
	most  time.Duration // lockAtMostFor; 0 means session
}

// shed returns the kind of ShedLock's clients, whose locks do not renew themselves.
func (b *rowBase) shed(name string, s shedLock) kind {
	zone, table := cmp.Or(s.zone, "UTC"), cmp.Or(s.table, "shedlock")
	most := cmp.Or(s.most, session)
	k := b.java(name, []string{"-Duser.timezone=" + zone}, "shedlock", b.jdbc+s.more, b.user, table, s.clock,
		strconv.Itoa(s.ahead), strconv.FormatInt(most.Milliseconds(), 10))
	k.ends = most
	return k
}

// java returns a kind whose client is interop/shedlock.
func (b *rowBase) java(name string, flags []string, args ...string) kind {
	return kind{name: name, ends: session, fixed: true, start: func() (client, error) {
		list := slices.Concat(jvm(b.setting.shed), flags, []string{"peer.Peer"}, args)
		return converse(b.setting.dir, list...)
	}}
}

// stile returns the database's URL for a layout.
func (b *rowBase) stile(layout string) string { return b.url + "&layout=" + layout }

// fullName makes a lock's name, with its random ending, fill the 64 characters of the column.
const fullName = "Größe {42}, Tagesabschluss der Filiale 0815 …!; "

// sheds returns the store of a database with ShedLock's table.
func (b *rowBase) sheds(name string) *store {
	w, url := b.setting, b.stile("shedlock")
	return &store{
		name:   name,
		names:  fullName,
		leases: true,
		kinds: []kind{
			b.shed("ShedLock", shedLock{clock: "database"}), b.shed("ShedLock, own clock", shedLock{clock: "utc"}),
			w.own("stile", url), w.run(url), w.own("stile candidate", url),
		},
		pairs: slices.Concat(
			both("ShedLock", "stile"), both("ShedLock", "stile run"), both("ShedLock", "stile candidate"),
			both("ShedLock, own clock", "stile"),
		),
		plays: b.shedPlays(),
	}
}

func (w *setting) postgres(t servertest.TB) *store {
	return w.postgresBase(t).sheds("PostgreSQL, ShedLock's table")
}

func (w *setting) mariaDB(t servertest.TB) *store {
	b := w.mariaDBBase(t)
	s := b.sheds("MariaDB, ShedLock's table")
	s.plays = slices.Concat(s.plays, b.zonePlays(), b.articlePlays())
	return s
}
