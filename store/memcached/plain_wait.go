package memcached

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/stilelock/stile/driver"
)

// The times between two reads of a key, at first and after a while.
const (
	tryLeast = 4 * time.Millisecond
	tryMost  = 64 * time.Millisecond
)

// Await waits until the key is free, or may be. The server sends no messages, so the key is polled.
func (p *Plain) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	key := p.key(c.Name)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for wait := tryLeast; ; wait = min(2*wait, tryMost) {
		conn, err := p.link.get(ctx)
		if err != nil {
			return driver.Place{}, err
		}
		r, err := conn.do(ctx, appendPeek(nil, key), 1)
		if err == nil {
			err = r[0].failure()
		}
		if err != nil {
			return driver.Place{}, p.link.explain(err)
		}
		if r[0].status == "EN" {
			return driver.Place{}, nil
		}
		timer.Reset(wait/2 + rand.N(wait/2))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return driver.Place{}, driver.Ended(ctx, true)
		case <-p.link.ctx.Done():
			return driver.Place{}, driver.ErrClosed
		}
	}
}
