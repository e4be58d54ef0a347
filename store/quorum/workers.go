package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// maxIdle is how many goroutines are kept for another call.
const maxIdle = 16

// workers are the goroutines of a driver, for which Close waits. Some stay for the next call, since their stacks have grown.
type workers struct {
	closed chan struct{} // closed when Close begins
	jobs   chan func()
	base   context.Context
	cancel context.CancelFunc // ends the requests to nodes

	mu    *sync.Mutex // guards what follows; the driver's
	ended bool
	tasks sync.WaitGroup
	idle  int // goroutines that wait for another call to make
}

func newWorkers(mu *sync.Mutex) *workers {
	w := &workers{closed: make(chan struct{}), jobs: make(chan func(), maxIdle), mu: mu}
	w.base, w.cancel = context.WithCancel(context.Background())
	return w
}

// runLocked runs f in a goroutine that Close waits for. The driver is not closed.
func (w *workers) runLocked(f func()) {
	if w.idle == 0 {
		w.tasks.Go(func() { w.work(f) })
		return
	}
	w.idle--
	w.jobs <- f // has room for one each
}

// work makes one call after another, until too many goroutines wait for the next call, or the driver is closed.
func (w *workers) work(f func()) {
	for {
		f()
		w.mu.Lock()
		if w.ended || w.idle == maxIdle {
			w.mu.Unlock()
			return
		}
		w.idle++
		w.mu.Unlock()
		select {
		case f = <-w.jobs:
		case <-w.closed:
			select {
			case f = <-w.jobs: // given just before
			default:
				return
			}
		}
	}
}

// pause waits for a while, or until ctx ends or the driver is closed.
func (w *workers) pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return driver.Ended(ctx, true)
	case <-w.closed:
		return driver.ErrClosed
	}
}

// end ends every call. Calls under way have partingWithin to end by themselves.
func (w *workers) end() {
	w.mu.Lock()
	first := !w.ended
	w.ended = true
	w.mu.Unlock()
	if first {
		close(w.closed)
	}
	done := make(chan struct{})
	go func() {
		w.tasks.Wait()
		close(done)
	}()
	timer := time.NewTimer(partingWithin)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		w.cancel()
		<-done
	}
	w.cancel()
}
