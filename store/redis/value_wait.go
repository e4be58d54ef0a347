package redis

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/redis/internal/conn"
)

const (
	lookLeast  = 5 * time.Millisecond   // between reads of a key, if the server reports no changes
	lookMost   = 100 * time.Millisecond // the same, after a while
	lookSafely = time.Second            // if the server reports changes, in case a report was lost
)

// endures notes how much is left of a key that refused a claim, negative if it never expires, and returns how long the claim
// has waited for a key that never expires.
func (s *valueLock) endures(c *driver.Claim, left time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left >= 0 {
		delete(s.endless, c.ID)
		return 0
	}
	since, ok := s.endless[c.ID]
	if !ok {
		since = time.Now()
		s.endless[c.ID] = since
	}
	return time.Since(since)
}

// over notes that a claim no longer waits.
func (s *valueLock) over(c *driver.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.endless, c.ID)
}

// Await waits until the key is free, or may be. The server reports every change of a key that this client has read, by any
// client (CLIENT TRACKING); if it cannot, Await polls.
func (s *valueLock) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	key := s.key(c.Name)
	pause := lookLeast
	for {
		if free, err := s.waitFree(ctx, key, pause); free || err != nil {
			return driver.Place{}, err
		}
		pause = min(2*pause, lookMost)
	}
}

// waitFree reads a key, and unless it is free waits until there is a reason to read it again.
func (s *valueLock) waitFree(ctx context.Context, key string, pause time.Duration) (free bool, err error) {
	left, signal, err := s.conn.Look(ctx, key)
	defer s.conn.ReleaseSignal(key, signal)
	switch {
	case s.conn.Context().Err() != nil:
		return false, driver.ErrClosed
	case ctx.Err() != nil:
		return false, driver.Ended(ctx, true)
	case err != nil:
		return false, err
	case left == conn.NoKey:
		return true, nil
	}
	return false, s.pause(ctx, signal, pause, time.Duration(left)*time.Millisecond)
}

// pause waits for a signal, or without one for about a pause, and in any case no longer than the key lives.
func (s *valueLock) pause(ctx context.Context, signal <-chan struct{}, pause, left time.Duration) error {
	wait := pause/2 + rand.N(pause/2)
	if signal != nil {
		wait = s.safely
	}
	if left > 0 {
		wait = min(wait, left+time.Millisecond)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-signal:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return driver.Ended(ctx, true)
	case <-s.conn.Context().Done():
		return driver.ErrClosed
	}
}
