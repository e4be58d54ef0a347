package migratelock

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/stub"
	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/internal/turntest"
	_ "github.com/stilelock/stile/store/redis"
	_ "github.com/stilelock/stile/store/sqlite"
)

func TestMain(m *testing.M) { turntest.Main(m, process) }

// A worker is a database whose migrations take a turn.
type worker struct {
	database.Driver
	run func()
}

func (w worker) Run(io.Reader) error {
	w.run()
	return nil
}

// process migrates up and down repeatedly.
func process(args []string, work func(int64)) error {
	client, err := stile.Open(context.Background(), args[0], &stile.Options{LockOptions: stile.LockOptions{TTL: 4 * time.Second}})
	if err != nil {
		return err
	}
	inner, err := stub.WithInstance(nil, &stub.Config{})
	if err != nil {
		return err
	}
	var d *Driver
	d = New(worker{inner, func() { work(d.Lease().Token()) }}, client, "migrations", 10*time.Second)
	m, err := migrate.NewWithDatabaseInstance("file://testdata", "stub", d)
	for steps := 1; err == nil || errors.Is(err, database.ErrLocked); {
		if err == nil {
			err = m.Steps(steps)
			if err == nil {
				steps = -steps
			}
		} else {
			err = nil
		}
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
