package store

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/speech"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
	"github.com/stilelock/stile/driver"
)

const (
	looksLong  = time.Second            // after which a listing shows how far it is
	looksOften = 100 * time.Millisecond // between two such lines
)

// Names lists the names in use, and shows on a terminal how far a long listing is.
func Names(ctx context.Context, c *stile.Client, prefix string) ([]stile.Queue, error) {
	if speech.Current >= speech.Normal && tty.Draws(os.Stderr) {
		ctx = lookedAt(ctx, speech.Stderr.Draw)
		defer speech.Stderr.Erase()
	}
	return c.List(ctx, prefix)
}

// lookedAt returns a context whose requests draw a line about what the store has looked at so far, if they take long.
func lookedAt(ctx context.Context, draw func(text func(cells int) string)) context.Context {
	var mu sync.Mutex // guards what follows
	sum, next := 0, time.Now().Add(looksLong)
	return driver.WhenHeard(ctx, func(n int) {
		mu.Lock()
		defer mu.Unlock()
		sum += n
		if now := time.Now(); now.After(next) {
			next = now.Add(looksOften)
			text := fmt.Sprintf("stile: looked at %d so far", sum)
			draw(func(cells int) string { return text[:min(cells, len(text))] })
		}
	})
}
