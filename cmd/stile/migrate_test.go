package main

import (
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/servertest"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	s := servertest.Postgres(t)
	u := newAccount(t)
	at := "postgres://postgres@" + s.Addr + "/postgres?schema=locks"

	sql := u.must("migrate", "--url", at, "--print")
	for _, want := range []string{"BEGIN;", `CREATE SCHEMA IF NOT EXISTS "locks"`, "CREATE TABLE", "COMMIT;"} {
		if !strings.Contains(sql, want) {
			t.Errorf("the SQL has no %q:\n%s", want, sql)
		}
	}
	if got := u.must("migrate", "--url", at); !strings.Contains(got, "the tables of locks are in postgres://") {
		t.Errorf("migrate prints %q", got)
	}
	u.must("migrate", "--url", at) // again
	if sql := u.must("migrate", "--url", "mariadb://127.0.0.1:1/shop?prefix=my_", "--print"); !strings.Contains(sql, "CREATE TABLE IF NOT EXISTS `my_claim`") {
		t.Errorf("the SQL for MariaDB is\n%s", sql)
	}

	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"--url", "redis://127.0.0.1:1"}, "has no tables"},
		{[]string{"--url", "postgres://127.0.0.1:1/?layout=shedlock"}, "another library"},
		{[]string{"--url", "postgres://127.0.0.1:1/?schema=a;b", "--print"}, "schema"},
		{[]string{"--url", "mysql://127.0.0.1:1/shop?prefix=a;b", "--print"}, "prefix"},
		{[]string{"orders"}, "takes no arguments"},
	} {
		r := u.run(append([]string{"migrate"}, tt.args...)...)
		if r.code != exit.BadUsage || !strings.Contains(r.err, tt.says) {
			t.Errorf("migrate %q exits with %d and says %q; want %d and %q", tt.args, r.code, r.err, exit.BadUsage, tt.says)
		}
	}
}
