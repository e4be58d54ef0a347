package claims

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// A backoff waits between tries, from 10 ms up to 640 ms, with jitter. The zero backoff is ready.
type backoff struct {
	tries int
	since time.Time
}

// wait waits before the next try, until ctx ends, whose cause it then returns. With patience, it returns the error of
// the last try once they have gone on that long.
func (b *backoff) wait(ctx context.Context, patience time.Duration, err error) error {
	if b.since.IsZero() {
		b.since = time.Now()
	}
	if tried := time.Since(b.since); patience > 0 && tried >= patience {
		return fmt.Errorf("tried for %v: %w", tried.Round(100*time.Millisecond), err)
	}
	d := 10 * time.Millisecond << min(b.tries, 6)
	b.tries++
	return Pause(ctx, d/2+rand.N(d/2+1))
}

// Pause waits so long, or until ctx ends, whose cause it then returns.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
