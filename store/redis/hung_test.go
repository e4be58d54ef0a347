package redis

import (
	"context"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
)

// The primary hangs, and Sentinel promotes the replica. A lease is soon renewed there: no call waits for the server that
// hangs.
func TestLeaseOutlivesAHungPrimary(t *testing.T) {
	t.Parallel()
	set := servertest.RedisSentinel(t)
	lane := awake.Lane(t)
	d := open(t, "redis+sentinel://"+set.Sentinel.Addr+"/"+set.Name)
	a := claim("name", "a")
	a.TTL = time.Minute
	enter(t, d, a)
	set.Settle(t)
	set.Primary.Pause()
	t.Cleanup(set.Primary.Resume)
	renewed := make(chan struct{}, 1)
	go func() { // as a client does, also while there is no primary
		for {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			err := d.Renew(ctx, []*driver.Claim{a})[0].Err
			cancel()
			select {
			case <-t.Context().Done():
				return
			default:
			}
			if err == nil {
				renewed <- struct{}{}
				return
			}
		}
	}()
	set.TookOver(t)
	start := time.Now()
	const soon = 8 * time.Second // it takes half a second to three; without this care it took eleven, mostly
	select {
	case <-renewed:
	case <-awake.For(time.Minute):
		t.Error("the lease is not renewed a minute after the failover")
	}
	lane.Within(time.Since(start), soon, "the renewal after the failover")
}

// A watch of a server that hangs ends with an error of the server, since no context has ended.
func TestWatchOfAHungServer(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := open(t, "redis://"+s.Addr)
	ctx := timely(t)
	other := make(chan error, 1)
	go func() { other <- d.Watch(ctx, "other", func() {}) }()
	tells(t, s)
	s.Pause()
	t.Cleanup(s.Resume)
	if err := d.Watch(ctx, "name", func() {}); !driver.IsUnreachable(err) {
		t.Errorf("watch = %v; want it unreachable", err)
	}
	s.Resume()
	d.Close()
	<-other //nolint:errcheck // it ended with the driver or the server
}
