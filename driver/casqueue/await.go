package casqueue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

// Await is [driver.Driver.Await]. It looks again and again.
func (d *Driver) Await(ctx context.Context, c *driver.Claim) (driver.Place, error) {
	var p driver.Place
	err := d.follow(ctx, c.Name, func(s *sight) (ahead int, over bool) {
		var err error
		if p, err = s.queue.Look(s.now, c.ID); err != nil || p.Holds && !s.queue.Entries[p.Ahead].Told {
			p = driver.Place{} // it is gone, or holds since another's lease ran out: its next Enter is told, or has it told
			return 0, true
		}
		p = driver.Place{Ticket: p.Ticket, Holds: p.Holds, Ahead: p.Ahead}
		return p.Ahead, p.Holds
	})
	if err != nil {
		return driver.Place{}, err
	}
	return p, nil
}

// Watch is [driver.Watcher.Watch]. It looks again and again, as often as one who waits at the head.
func (d *Driver) Watch(ctx context.Context, name string, changed func()) error {
	seen, first := "", true
	return d.follow(ctx, name, func(s *sight) (int, bool) {
		if now := shape(s); first || now != seen {
			seen, first = now, false
			changed()
		}
		return 1, false
	})
}

// shape differs whenever claims enter, leave, are kept, hold, run out, or are gone.
func shape(s *sight) string {
	s.queue.Expire(s.now)
	var b strings.Builder
	holding := s.queue.Holding()
	for i, e := range s.queue.Entries {
		fmt.Fprintln(&b, e.Ticket, i < holding, e.Left, e.Ends <= s.now)
	}
	return b.String()
}

// follow shows the queue of a name until see has seen enough. A store that cannot be reached is asked again; any other
// failure ends it, and so does the end of ctx.
func (d *Driver) follow(ctx context.Context, text string, see func(*sight) (ahead int, over bool)) error {
	one := d.names.use(text)
	defer d.names.done(text, one)
	var (
		version Version
		news    = time.Now()
		timer   = time.NewTimer(0)
	)
	defer timer.Stop()
	for {
		changed := d.names.next(one) // before the look, so that no change is missed
		ahead := 1
		s, err := d.get(ctx, text)
		switch {
		case ctx.Err() != nil:
			return driver.Ended(ctx, true)
		case err != nil && !driver.IsUnreachable(err):
			return err
		case err == nil:
			if s.version != version {
				version, news = s.version, time.Now()
			}
			var over bool
			if ahead, over = see(s); over {
				return nil
			}
		}
		timer.Reset(interval(time.Since(news), ahead))
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
			return driver.Ended(ctx, true)
		case <-d.closed:
			return driver.ErrClosed
		}
	}
}

// How long a client lets pass between two looks at a name, if its claim is next. It looks often after there was news,
// since many sections are short. Those behind look less often, by as many times as they have others before them.
const (
	lookSoon   = 2 * time.Millisecond
	lookLater  = 5 * time.Millisecond
	lookAtLast = 20 * time.Millisecond
	lookRarely = 200 * time.Millisecond // at most
)

func interval(quiet time.Duration, ahead int) time.Duration {
	p := lookAtLast
	switch {
	case quiet < 50*time.Millisecond:
		p = lookSoon
	case quiet < time.Second:
		p = lookLater
	}
	return min(p*time.Duration(max(ahead, 1)), lookRarely)
}
