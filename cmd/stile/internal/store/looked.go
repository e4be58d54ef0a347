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
	looksLong  = time.Second            // after this time, a listing shows its progress
	looksOften = 100 * time.Millisecond // between two such lines
)

// Names lists the names in use, and shows the progress of a long listing on a terminal.
func Names(ctx context.Context, c *stile.Client, prefix string) ([]stile.Queue, error) {
	if speech.Current >= speech.Normal && tty.Draws(os.Stderr) {
		ctx = lookedAt(ctx, speech.Stderr.Draw)
		defer speech.Stderr.Erase()
	}
	return c.List(ctx, prefix)
}

// lookedAt returns a context whose requests, if they take long, draw a line with the number of keys or rows read so far.
func lookedAt(ctx context.Context, draw func(text func(cells int) string)) context.Context {
	var mu sync.Mutex // guards the variables below
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
