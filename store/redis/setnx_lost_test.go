package redis_test

import (
	"context"
	"errors"
	"github.com/stilelock/stile/internal/awake"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/servertest"
)

func openClient(t *testing.T, url string, ttl time.Duration) *stile.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := stile.Open(ctx, url, &stile.Options{LockOptions: stile.LockOptions{TTL: ttl}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A holder whose key was deleted or overwritten by a client that does not compare learns of this before its lease would end,
// and does not remove the new value.
func TestSetNXHolderIsToldOfTheft(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	const ttl = 12 * time.Second // it learns of this after a third of it
	for what, theft := range map[string][][]string{
		"deleted":           {{"DEL", "deleted"}},
		"deleted and taken": {{"DEL", "deleted and taken"}, {"SET", "deleted and taken", "theirs", "NX", "PX", "60000"}},
		"overwritten":       {{"SET", "overwritten", "theirs", "PX", "60000"}},
		"made another type": {{"DEL", "made another type"}, {"HSET", "made another type", "a", "1"}},
		"renamed":           {{"RENAME", "renamed", "renamed elsewhere"}},
		"made empty":        {{"DEL", "made empty"}, {"SET", "made empty", ""}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			lease, err := openClient(t, "redis://"+s.Addr+"?layout=setnx", ttl).Mutex(what).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.Redis(theft...)
			select {
			case <-lease.Context().Done():
			case <-awake.For(ttl):
				t.Fatalf("the holder is not told before its lease of %v would be over", ttl)
			}
			if err := context.Cause(lease.Context()); !errors.Is(err, stile.ErrLost) {
				t.Errorf("the cause is %v; want ErrLost", err)
			}
			before := s.Redis([]string{"DUMP", what})
			if err := lease.Unlock(); !errors.Is(err, stile.ErrLost) {
				t.Errorf("unlock = %v; want ErrLost", err)
			}
			if got := s.Redis([]string{"DUMP", what}); got != before {
				t.Error("unlocking changed another client's key")
			}
		})
	}
}

// A claim does not wait for a lock that nobody will release: its caller gets an error that names the obstacle.
func TestSetNXWaiterIsToldOfForeignKeys(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	s.Redis([]string{"SET", "endless", "redis-py without timeout"}, []string{"HSET", "hash", "a", "1"})
	for _, name := range []string{"endless", "hash"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := openClient(t, "redis://"+s.Addr+"?layout=setnx", time.Second).Mutex(name).Lock(ctx)
			if !errors.Is(err, stile.ErrForeign) {
				t.Errorf("lock = %v; want ErrForeign", err)
			}
		})
	}
}
