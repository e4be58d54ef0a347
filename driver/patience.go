package driver

import (
	"context"
	"sync"
	"time"
)

// heardKey is the key of a context's function that notes progress.
type heardKey struct{}

// Heard reports that the store has answered one more part of a long request, for which it has read n keys or rows. A driver
// calls it after each page of a List, so that only a silent store exhausts the caller's patience.
func Heard(ctx context.Context, n int) {
	if heard, ok := ctx.Value(heardKey{}).(func(int)); ok {
		heard(n)
	}
}

// WhenHeard returns a context whose requests call a function at each [Heard]. The function must return soon. It may be
// called from several goroutines at once.
func WhenHeard(ctx context.Context, heard func(n int)) context.Context {
	outer, _ := ctx.Value(heardKey{}).(func(int))
	return context.WithValue(ctx, heardKey{}, func(n int) {
		if outer != nil {
			outer(n)
		}
		heard(n)
	})
}

// WithPatience returns a context that ends, with the given cause, when nothing was [Heard] for the time most. Until then its
// deadline is the end of that time, and moves with each Heard.
func WithPatience(ctx context.Context, most time.Duration, silent error) (context.Context, context.CancelFunc) {
	p := &patient{most: most, end: time.Now().Add(most)}
	inner, cancel := context.WithCancelCause(ctx)
	p.Context = WhenHeard(inner, p.heard)
	p.timer = time.AfterFunc(most, func() { cancel(silent) })
	return p, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.over = true
		p.timer.Stop()
		cancel(nil)
	}
}

// A patient is the context of WithPatience.
type patient struct {
	context.Context
	most time.Duration

	mu    sync.Mutex // guards the fields below
	timer *time.Timer
	end   time.Time
	over  bool // the patience is over
}

// Deadline is [context.Context.Deadline].
func (p *patient) Deadline() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if outer, ok := p.Context.Deadline(); ok && outer.Before(p.end) {
		return outer, true
	}
	return p.end, true
}

func (p *patient) heard(int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.end = time.Now().Add(p.most)
		p.timer.Reset(p.most)
	}
}
