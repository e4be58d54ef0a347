package redis

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/internal/servertest"
)

// node-redlock takes all of several names or none. A name that stile holds keeps it from all of them, and each name that it
// took keeps stile out.
func TestSetNXSeveralNamesAtOnce(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	d := openSetNX(t, "redis://"+s.Addr)
	const together = `
		for _, key in ipairs(KEYS) do if redis.call('exists', key) == 1 then return 0 end end
		for _, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end
		return #KEYS`
	take := []string{"EVAL", together, "3", "one", "two", "three", "6a0c3d", "60000"}
	c := claim("two", "ours")
	enter(t, d, c)
	if got := s.Redis(take); got != int64(0) {
		t.Errorf("three names with one that stile holds: %v are taken, want 0", got)
	}
	leave(t, d, c)
	if got := s.Redis(take); got != int64(3) {
		t.Errorf("three names that are free: %v are taken, want 3", got)
	}
	for _, name := range []string{"one", "two", "three"} {
		if enter(t, d, claim(name, "next")).Holds {
			t.Errorf("stile holds %s beside another client", name)
		}
	}
}

// Behind Sentinel a waiter gets reports as from a single server.
func TestSetNXBehindSentinel(t *testing.T) {
	t.Parallel()
	set := servertest.RedisSentinel(t)
	d := openSetNX(t, "redis+sentinel://"+set.Sentinel.Addr+"/"+set.Name)
	set.Primary.Redis(foreignLock("name", "theirs"))
	d.safely = time.Hour // so that it learns of the release in no other way
	told := awaiting(t, d, claim("name", "ours"))
	tells(t, set.Primary)
	set.Primary.Redis(foreignUnlock("name", "theirs"))
	if p := <-told; !p.Holds {
		t.Errorf("the waiter = %+v after another library's release; want it to hold", p)
	}
}

// The driver works over the caller's own client, with a prefix.
func TestSetNXOverTheCallersClient(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	d, err := NewSetNX(client, &Options{Prefix: "shop:"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c := claim("orders", "ours")
	enter(t, d, c)
	if got := s.Redis([]string{"EXISTS", "shop:orders"}); got != int64(1) {
		t.Error("the key is not the prefix and the name")
	}
	leave(t, d, c)
}
