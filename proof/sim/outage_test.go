package sim_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/store/memory"
)

// Watch and Observe report the error that ends them, also if they have just reported an outage.
func TestWatchTellsOfItsEndAfterAnOutage(t *testing.T) {
	follow := map[string]func(*peer, context.Context, func(error) bool){
		"watch": func(p *peer, ctx context.Context, see func(error) bool) {
			for _, err := range p.Watch(ctx, "x") {
				if !see(err) {
					return
				}
			}
		},
		"observe": func(p *peer, ctx context.Context, see func(error) bool) {
			for _, err := range p.Observe(ctx, "x") {
				if !see(err) {
					return
				}
			}
		},
	}
	for name, run := range follow {
		for _, link := range []memory.Link{memory.Up, memory.Refused, memory.Silent} {
			t.Run(name, func(t *testing.T) {
				inWorld(t, func(w *world) {
					a := w.join(nil)
					a.d.SetLink(link)
					var told []error
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						run(a, w.Context(), func(err error) bool {
							told = append(told, err)
							return true
						})
					}()
					pass(20 * time.Second)
					if err := a.Close(); err != nil {
						w.Error(err)
					}
					pass(20 * time.Second)
					select {
					case <-ended:
					default:
						w.Fatal("it goes on after Close")
					}
					if len(told) == 0 || !errors.Is(told[len(told)-1], stile.ErrClosed) {
						w.Errorf("told %v; want ErrClosed at the end", told)
					}
				})
			})
		}
	}
}
