package quorum

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
)

// A nodeQueue orders the requests to one node about one claim.
type nodeQueue struct {
	id   string
	node int
}

// A slot is a place in a nodeQueue. Its zero value waits for nothing.
type slot struct {
	of     *rounds
	queue  nodeQueue
	before chan struct{} // closed when the requests before are over; nil if there are none
	over   chan struct{}
}

// queueLocked takes the next place in a queue.
func (rs *rounds) queueLocked(q nodeQueue) slot {
	if q.id == "" {
		return slot{}
	}
	s := slot{of: rs, queue: q, before: rs.queues[q], over: make(chan struct{})}
	rs.queues[q] = s.over
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

// leave lets the next request of the queue go on, once the requests before are over. These have a deadline of their own.
func (s *slot) leave() {
	if s.of == nil {
		return
	}
	if s.before != nil {
		<-s.before
	}
	s.of.mu.Lock()
	if s.of.queues[s.queue] == s.over {
		delete(s.of.queues, s.queue)
	}
	s.of.mu.Unlock()
	close(s.over)
}
