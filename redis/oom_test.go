package redis

import (
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
)

// When the server's memory is full, a new claim is refused, and those that are there go on: they are renewed, leave, are
// kept for as long as was asked, and who waits already is next.
func TestMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{layoutQueue, layoutSetNX} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			s := servertest.Redis(t)
			d, err := driver.Open(timely(t), "redis://"+s.Addr+"?layout="+layout)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			holder, waiter := claim("name", "holder"), claim("name", "waiter")
			enter(t, d, holder)
			enter(t, d, waiter)
			s.Redis([]string{"CONFIG", "SET", "maxmemory", "1"})
			_, err = d.Enter(timely(t), claim("other", "new"))
			says(t, err, "no memory left for a new claim")
			marks(t, err, true, false)
			if err := d.Renew(timely(t), []*driver.Claim{holder})[0].Err; err != nil {
				t.Errorf("renewal = %v", err)
			}
			if err := d.Leave(timely(t), &driver.Release{Claim: holder, Keep: 500 * time.Millisecond}); err != nil {
				t.Errorf("to leave, and keep the lock taken for a while = %v", err)
			}
			if p := enter(t, d, waiter); p.Holds {
				t.Error("the waiter holds while the lock is kept taken")
			}
			servertest.Until(t, "the waiter holds", func() bool { return enter(t, d, waiter).Holds })
			leave(t, d, waiter)
		})
	}
}
