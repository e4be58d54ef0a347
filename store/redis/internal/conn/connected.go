package conn

import (
	"context"

	"github.com/stilelock/stile/driver"
)

// Doubt makes the next call check its connection first: a request on a lost connection has an unknown outcome, and an unsent
// one a known outcome.
func (c *Conn) Doubt() { c.down.Store(true) }

// connected waits until the server of a key answers, if the last call found no connection. The client may wait for a
// connection longer than its caller: the next caller uses it.
func (c *Conn) connected(ctx context.Context, key string) error {
	if err := c.Context().Err(); err != nil {
		return driver.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return &unsent{err}
	}
	if !c.down.Load() {
		return nil
	}
	answered := make(chan error, 1)
	if !c.Go(func() { answered <- c.answers(key) }) {
		return driver.ErrClosed
	}
	select {
	case <-ctx.Done():
		return &unsent{ctx.Err()}
	case <-c.Context().Done():
		return driver.ErrClosed
	case err := <-answered:
		if err != nil {
			return &unsent{err}
		}
		return nil
	}
}

// answers sends a request to the server of a key. Any answer counts, even a refusal.
func (c *Conn) answers(key string) (err error) {
	ask, cancel := context.WithTimeout(c.Context(), probeWithin)
	defer cancel()
	for range 2 { // the first may only show that the old connection is lost
		if err = c.client.Do(ask, c.client.B().Type().Key(key).Build()).NonRedisError(); err == nil {
			c.down.Store(false)
			return nil
		}
	}
	return err
}
