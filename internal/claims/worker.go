package claims

import "sync"

// maxIdle is how many goroutines are kept for another job.
const maxIdle = 8

// workers run jobs. Goroutines that have done one are kept for the next, since their stacks have grown.
type workers struct {
	group sync.WaitGroup
	jobs  chan func() // has room for one for each that is idle
	ended chan struct{}

	mu     sync.Mutex // guards what follows
	closed bool
	idle   int
}

func (w *workers) init() {
	w.jobs, w.ended = make(chan func(), maxIdle), make(chan struct{})
}

// run runs f in a goroutine that close waits for. After close there is nothing left to do.
func (w *workers) run(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
	case w.idle > 0:
		w.idle--
		w.jobs <- f
	default:
		w.group.Go(func() { w.work(f) })
	}
}

// work does one job after another, until there are too many who would wait for the next, or the workers are closed.
func (w *workers) work(f func()) {
	for f != nil {
		f()
		f = w.next()
	}
}

func (w *workers) next() func() {
	w.mu.Lock()
	if w.closed || w.idle == maxIdle {
		w.mu.Unlock()
		return nil
	}
	w.idle++
	w.mu.Unlock()
	select {
	case f := <-w.jobs:
		return f
	case <-w.ended:
		select {
		case f := <-w.jobs: // given just before
			return f
		default:
			return nil
		}
	}
}

// close waits for all jobs.
func (w *workers) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	close(w.ended)
	w.group.Wait()
}
