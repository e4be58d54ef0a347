package quorum

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
)

// A nodeQueue orders what one node is asked about one claim.
type nodeQueue struct {
	id   string
	node int
}

// A slot is a place in a nodeQueue. Its zero value waits for nothing.
type slot struct {
	d      *Driver
	queue  nodeQueue
	before chan struct{} // closed when those before are over; nil if there are none
	over   chan struct{}
}

// queueLocked takes the next place in a queue.
func (d *Driver) queueLocked(q nodeQueue) slot {
	if q.id == "" {
		return slot{}
	}
	s := slot{d: d, queue: q, before: d.queues[q], over: make(chan struct{})}
	d.queues[q] = s.over
	return s
}

func (s *slot) wait(ctx context.Context) error {
	if s.before == nil {
		return nil
	}
	select {
	case <-s.before:
		return nil
	case <-ctx.Done():
		return driver.Unsent(driver.Unreachable(errors.New("an earlier request has no answer yet")))
	}
}

// leave lets the next request of the queue go on, when those before are over, which have a deadline of their own.
func (s *slot) leave() {
	if s.d == nil {
		return
	}
	if s.before != nil {
		<-s.before
	}
	s.d.mu.Lock()
	if s.d.queues[s.queue] == s.over {
		delete(s.d.queues, s.queue)
	}
	s.d.mu.Unlock()
	close(s.over)
}
