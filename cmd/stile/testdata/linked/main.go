// Linked is the least that stile could take to begin: a program with the same libraries, and nothing else. With a FILE and
// CMD it also does what stile run on SQLite cannot go without: it inserts a row, starts itself again, which starts CMD, and
// deletes the row.
package main

import (
	"context"
	"database/sql"
	"log"
	"os"
	"os/exec"

	_ "github.com/spf13/cobra"
	_ "github.com/stilelock/stile"
	_ "github.com/stilelock/stile/cmd/stile/testdata/linked/between"
	_ "github.com/stilelock/stile/store/consul"
	_ "github.com/stilelock/stile/store/etcd"
	_ "github.com/stilelock/stile/store/memcached"
	_ "github.com/stilelock/stile/store/mysql"
	_ "github.com/stilelock/stile/store/postgres"
	_ "github.com/stilelock/stile/store/redis"
	_ "github.com/stilelock/stile/store/sqlite"
	_ "github.com/stilelock/stile/store/zookeeper"
)

func main() {
	if len(os.Args) < 3 {
		return
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

func run(file string, argv []string) error {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS bare (name TEXT PRIMARY KEY) WITHOUT ROWID"); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "INSERT INTO bare (name) VALUES (?)", "x"); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{"between"}, argv...)...)
	if err := cmd.Run(); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "DELETE FROM bare WHERE name = ?", "x")
	return err
}
