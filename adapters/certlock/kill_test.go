package certlock

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/internal/turntest"
	_ "github.com/stilelock/stile/store/redis"
	_ "github.com/stilelock/stile/store/sqlite"
)

func TestMain(m *testing.M) { turntest.Main(m, process) }

// process makes certmagic clean a storage repeatedly, which lists the keys under a lock.
func process(args []string, work func(int64)) error {
	ctx := context.Background()
	client, err := stile.Open(ctx, args[1], &stile.Options{LockOptions: stile.LockOptions{TTL: 4 * time.Second}})
	if err != nil {
		return err
	}
	at := &listed{Storage: &certmagic.FileStorage{Path: args[0]}}
	storage := New(at, client, "certs/")
	at.list = func() { work(storage.Lease("storage_clean").Token()) }
	for err == nil {
		err = certmagic.CleanStorage(ctx, storage, certmagic.CleanStorageOptions{OCSPStaples: true})
	}
	return err
}

// A listed storage takes a turn when its keys are listed.
type listed struct {
	certmagic.Storage
	list func()
}

func (l *listed) List(ctx context.Context, path string, recursive bool) ([]string, error) {
	l.list()
	return l.Storage.List(ctx, path, recursive)
}

// Two processes clean a storage. The working one is killed, and the other goes on.
func TestKill(t *testing.T) {
	t.Parallel()
	for store, url := range map[string]string{
		"sqlite":  "sqlite://" + filepath.Join(t.TempDir(), "locks.db"),
		"redis":   "redis://" + servertest.Redis(t).Addr,
		"service": turntest.Service(t),
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			turntest.Kill(t, 2, t.TempDir(), url)
		})
	}
}
