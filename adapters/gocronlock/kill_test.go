package gocronlock

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/internal/turntest"
	_ "github.com/stilelock/stile/store/redis"
	_ "github.com/stilelock/stile/store/sqlite"
)

func TestMain(m *testing.M) { turntest.Main(m, process) }

// process runs a job each second by a scheduler.
func process(args []string, work func(int64)) error {
	ctx := context.Background()
	client, err := stile.Open(ctx, args[1], &stile.Options{LockOptions: stile.LockOptions{TTL: 4 * time.Second}})
	if err != nil {
		return err
	}
	locker, elector := NewLocker(client, nil), NewElector(client, "election", "")
	option := gocron.WithDistributedLocker(locker)
	token := func() int64 { return locker.Lease("report").Token() }
	if args[0] == "elector" {
		option = gocron.WithDistributedElector(elector)
		token = func() int64 {
			lease, _ := elector.Lease(ctx)
			return lease.Token()
		}
	}
	s, err := gocron.NewScheduler(option)
	if err != nil {
		return err
	}
	_, err = s.NewJob(gocron.CronJob("* * * * * *", true), gocron.NewTask(func() { work(token()) }),
		gocron.WithName("report"), gocron.WithSingletonMode(gocron.LimitModeReschedule))
	if err != nil {
		return err
	}
	s.Start()
	select {}
}

// Two processes have the same job. The working one is killed, and the other goes on.
func TestKill(t *testing.T) {
	t.Parallel()
	for store, url := range map[string]string{
		"sqlite":  "sqlite://" + filepath.Join(t.TempDir(), "locks.db"),
		"redis":   "redis://" + servertest.Redis(t).Addr,
		"service": turntest.Service(t),
	} {
		for _, kind := range []string{"locker", "elector"} {
			t.Run(store+"/"+kind, func(t *testing.T) {
				t.Parallel()
				turntest.Kill(t, 2, kind, url)
			})
		}
	}
}
