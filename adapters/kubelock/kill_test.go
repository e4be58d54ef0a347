package kubelock

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/internal/turntest"
	_ "github.com/stilelock/stile/store/redis"
	_ "github.com/stilelock/stile/store/sqlite"
	"k8s.io/client-go/tools/leaderelection"
)

func TestMain(m *testing.M) { turntest.Main(m, process) }

// process stands, and works while it leads, like a controller.
func process(args []string, work func(int64)) error {
	ctx := context.Background()
	client, err := stile.Open(ctx, args[0], nil)
	if err != nil {
		return err
	}
	for {
		lock, err := New(client, "controller", fmt.Sprint("process ", os.Getpid()))
		if err != nil {
			return err
		}
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 5 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: 200 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					ctx, cancel := lock.Context(ctx)
					defer cancel()
					for ctx.Err() == nil {
						work(stile.Token(ctx))
					}
				},
				OnStoppedLeading: func() {},
			},
		})
	}
}

// Two processes run client-go's elector. The leader is killed in its work, and the other leads.
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
