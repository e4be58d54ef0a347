package quorum

// maxIdle is how many goroutines are kept for another call.
const maxIdle = 16

// workLocked runs f in a goroutine that Close waits for. The driver is not closed.
func (d *Driver) workLocked(f func()) {
	if d.idle == 0 {
		d.tasks.Go(func() { d.worker(f) })
		return
	}
	d.idle--
	d.jobs <- f // has room for one each
}

// worker makes one call after another, until there are too many who would wait for the next, or the driver is closed.
func (d *Driver) worker(f func()) {
	for {
		f()
		d.mu.Lock()
		if d.ended || d.idle == maxIdle {
			d.mu.Unlock()
			return
		}
		d.idle++
		d.mu.Unlock()
		select {
		case f = <-d.jobs:
		case <-d.closed:
			select {
			case f = <-d.jobs: // given just before
			default:
				return
			}
		}
	}
}
