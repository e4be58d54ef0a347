package cronlock

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/internal/turntest"
	_ "github.com/stilelock/stile/store/redis"
	_ "github.com/stilelock/stile/store/sqlite"
)

func TestMain(m *testing.M) { turntest.Main(m, process) }

// process runs a job each second by a schedule.
func process(args []string, work func(int64)) error {
	client, err := stile.Open(context.Background(), args[1], &stile.Options{LockOptions: stile.LockOptions{TTL: 4 * time.Second}})
	if err != nil {
		return err
	}
	locker, err := New(client, nil)
	if err != nil {
		return err
	}
	wrapper := locker.SkipIfHeld("report")
	if args[0] == "delay" {
		wrapper = locker.DelayIfHeld("report", time.Minute)
	}
	c := cron.New(cron.WithSeconds(), cron.WithChain(cron.SkipIfStillRunning(cron.DiscardLogger), wrapper))
	if _, err := c.AddFunc("* * * * * *", func() { work(locker.Lease("report").Token()) }); err != nil {
		return err
	}
	c.Run()
	return nil
}

// Two processes have the same job. The working one is killed, and the other goes on.
func TestKill(t *testing.T) {
	t.Parallel()
	for store, url := range map[string]string{
		"sqlite":  "sqlite://" + filepath.Join(t.TempDir(), "locks.db"),
		"redis":   "redis://" + servertest.Redis(t).Addr,
		"service": turntest.Service(t),
	} {
		for _, kind := range []string{"skip", "delay"} {
			t.Run(store+"/"+kind, func(t *testing.T) {
				t.Parallel()
				turntest.Kill(t, 2, kind, url)
			})
		}
	}
}
