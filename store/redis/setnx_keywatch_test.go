package redis

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/awake"
	"github.com/stilelock/stile/internal/servertest"
)

// alertedOfKeys returns a channel of the alerts of a driver.
func alertedOfKeys(d driver.Alerter) chan string {
	heard := make(chan string, 100)
	d.Alert(func(ids ...string) {
		for _, id := range ids {
			heard <- id
		}
	})
	return heard
}

// keyIsHeard waits until a holder knows its key's present value.
func keyIsHeard(t *testing.T, d *SetNX, c *driver.Claim) {
	t.Helper()
	servertest.Until(t, "the holder listens to "+c.Name, func() bool {
		d.keyWatch.mu.Lock()
		defer d.keyWatch.mu.Unlock()
		_, due := d.keyWatch.due[d.key(c.Name)]
		return d.keyWatch.held[d.key(c.Name)].id == c.ID && !due && !d.keyWatch.timed
	})
	_, _ = d.keyWatch.conn.Values(timely(t), []string{d.key(c.Name)}) // after a read that may be under way
}

// A holder learns at once that its key was deleted or overwritten, by any client, on one server and behind Sentinel.
func TestSetNXBreakIsHeard(t *testing.T) {
	t.Parallel()
	s, set := servertest.Redis(t), servertest.RedisSentinel(t)
	lane := awake.Lane(t)
	for url, s := range map[string]*servertest.Server{
		"redis://" + s.Addr: s, "redis+sentinel://" + set.Sentinel.Addr + "/" + set.Name: set.Primary,
	} {
		d, other := openSetNX(t, url), openSetNX(t, url)
		heard := alertedOfKeys(d)
		spared := claim("spared", "spared")
		enter(t, d, spared)
		for what, breaks := range map[string]func(key string){
			"break": func(key string) {
				if _, err := other.Break(timely(t), &driver.BreakRequest{Name: key}); err != nil {
					t.Fatal(err)
				}
			},
			"DEL":   func(key string) { s.Redis([]string{"DEL", key}) },
			"SET":   func(key string) { s.Redis([]string{"SET", key, "another's", "PX", "100000"}) },
			"RPUSH": func(key string) { s.Redis([]string{"DEL", key}, []string{"RPUSH", key, "x"}) },
		} {
			c := claim(what, "held by "+what)
			enter(t, d, c)
			keyIsHeard(t, d, c)
			start := time.Now()
			breaks(what)
			select {
			case id := <-heard:
				if id != c.ID {
					t.Errorf("%s: %s: alerted of %q; want %q", url, what, id, c.ID)
				}
			case <-awake.For(time.Minute):
				t.Errorf("%s: %s: the holder is not alerted", url, what)
			}
			lane.Within(time.Since(start), time.Second, "%s: %s: the holder is alerted", url, what)
			if r := d.Renew(timely(t), []*driver.Claim{c})[0]; !errors.Is(r.Err, driver.ErrGone) {
				t.Errorf("%s: %s: renewal = %v; want that it is gone", url, what, r.Err)
			}
		}
		if r := d.Renew(timely(t), []*driver.Claim{spared})[0]; r.Err != nil || len(heard) > 0 {
			t.Errorf("%s: renewal of another claim = %v, alerted %d times more; want nil, and none", url, r.Err, len(heard))
		}
	}
}

// A client's own renewals change the key: each causes one read and no alert.
func TestSetNXRenewalsAreLookedAtOnce(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	awake.Lane(t)
	d := openSetNX(t, "redis://"+s.Addr)
	heard := alertedOfKeys(d)
	for i := range 200 {
		c := claim("brief", fmt.Sprint(i))
		enter(t, d, c)
		leave(t, d, c)
	}
	if n := s.RedisInfo("tracking_clients"); n != "0" {
		t.Errorf("%s clients track though nobody held for long; want none", n)
	}
	c := claim("name", "id")
	enter(t, d, c)
	keyIsHeard(t, d, c)
	const renewals = 20
	before := gets(t, s)
	for range renewals {
		was := gets(t, s)
		if r := d.Renew(timely(t), []*driver.Claim{c})[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
		// The script of a renewal reads the key too.
		servertest.Until(t, "the key is read after its renewal", func() bool { return gets(t, s) >= was+2 })
	}
	keyIsHeard(t, d, c)
	after := gets(t, s)
	if n := after - before; n > 2*renewals+renewals/2 {
		t.Errorf("the key was read %d times in %d renewals; want about twice in each", n, renewals)
	}
	<-awake.For(time.Second)
	if n := gets(t, s) - after; n != 0 {
		t.Errorf("the key was read %d times while nothing changed; want never", n)
	}
	if len(heard) > 0 {
		t.Errorf("alerted of %s; want nothing", <-heard)
	}
}

// A claim that another process renews is forgotten when its lease would be over. A claim that nobody renews is forgotten
// with its key.
func TestSetNXDetachedClaimsAreForgotten(t *testing.T) {
	t.Parallel()
	s := servertest.Redis(t)
	url := "redis://" + s.Addr
	d, other := openSetNX(t, url), openSetNX(t, url)
	kept, left := claim("kept", "kept"), claim("left", "left")
	kept.TTL, left.TTL = 2*time.Second, 2*time.Second // a busy machine still renews in time
	enter(t, d, kept)
	enter(t, d, left)
	servertest.Until(t, "both are forgotten", func() bool {
		if r := other.Renew(timely(t), []*driver.Claim{kept})[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
		d.keyWatch.mu.Lock()
		defer d.keyWatch.mu.Unlock()
		return len(d.keyWatch.held) == 0 && len(d.keyWatch.due) == 0
	})
}

// gets counts the commands that read a string.
func gets(t *testing.T, s *servertest.Server) (n int) {
	t.Helper()
	if _, err := fmt.Sscanf(s.RedisInfo("cmdstat_get"), "calls=%d,", &n); err != nil {
		t.Fatal(err)
	}
	return n
}
