//go:build unix

package drive

import (
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// FrozenWaiter freezes a client of the lock service over a store while it waits for a lock with this ttl, and resets none of
// its connections. Its turn comes, and FrozenWaiter returns after what time the next client has the lock.
func FrozenWaiter(t *testing.T, open func(testing.TB) driver.Driver, ttl time.Duration) time.Duration {
	t.Helper()
	addr := Service(t, 1, open)
	way := servertest.NewProxy(t, addr)
	holder, frozen, next := client(t, "stile://"+addr), client(t, "stile://"+way.Addr), client(t, "stile://"+addr)
	lease, err := holder.Mutex("a").Lock(Timely(t))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if l, err := frozen.Mutex("a").With(stile.LockOptions{TTL: ttl}).Lock(t.Context()); err == nil {
			t.Errorf("the frozen client got the lock, with token %d", l.Token())
		}
	}()
	servertest.Until(t, "the client waits", func() bool {
		q, err := next.Show(t.Context(), "a")
		return err == nil && len(q.Claims) == 2
	})
	way.Freeze(true, true)
	begun := time.Now()
	if err := lease.Unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := next.Mutex("a").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	return time.Since(begun)
}
