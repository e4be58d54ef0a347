package gooselock

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/internal/turntest"
	_ "github.com/stilelock/stile/store/redis"
	_ "github.com/stilelock/stile/store/sqlite"
	_ "modernc.org/sqlite"
)

func TestMain(m *testing.M) { turntest.Main(m, process) }

// process migrates repeatedly: without versions, goose does not check which migrations are done.
func process(args []string, work func(int64)) error {
	ctx := context.Background()
	client, err := stile.Open(ctx, args[0], &stile.Options{LockOptions: stile.LockOptions{TTL: 4 * time.Second}})
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return err
	}
	locker := New(client, "migrations")
	step := goose.NewGoMigration(1, &goose.GoFunc{RunDB: func(context.Context, *sql.DB) error {
		work(locker.Lease().Token())
		return nil
	}}, nil)
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, nil,
		goose.WithLocker(locker), goose.WithGoMigrations(step), goose.WithDisableVersioning(true))
	for err == nil {
		_, err = provider.Up(ctx)
	}
	return err
}

// Two processes migrate. The working one is killed, and the other goes on.
func TestKill(t *testing.T) {
	t.Parallel()
	for store, url := range map[string]string{
		"sqlite":  "sqlite://" + filepath.Join(t.TempDir(), "locks.db"),
		"redis":   "redis://" + servertest.Redis(t).Addr,
		"service": turntest.Service(t),
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			turntest.Kill(t, 2, url)
		})
	}
}
