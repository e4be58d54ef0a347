package claims

import "sync"

// maxIdle is the number of idle goroutines kept for the next job.
const maxIdle = 8

// workers run jobs. Idle goroutines are kept for the next job, since their stacks have grown.
type workers struct {
	group sync.WaitGroup
	jobs  chan func() // has room for one job per idle goroutine
	ended chan struct{}

	mu     sync.Mutex // guards the fields below
	closed bool
	idle   int
}

func (w *workers) init() {
	w.jobs, w.ended = make(chan func(), maxIdle), make(chan struct{})
}

// run runs f in a goroutine that close waits for. After close it does nothing.
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

// work does one job after another, until enough others are idle or the workers are closed.
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
		case f := <-w.jobs: // sent just before
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
