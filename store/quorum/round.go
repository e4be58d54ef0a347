package quorum

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
)

// A round is one question that is put to all nodes at once. It is decided when the answers so far settle it; later answers
// go to late.
type round struct {
	decided chan struct{}
	most    chan struct{} // closed when a majority of the nodes has answered, whatever it was
	begun   time.Time
	need    int
	enough  func(votes []vote) bool
	closed  <-chan struct{} // closed when the driver is
	patient bool            // wait waits until it is decided

	least     int64         // the ticket that was asked for
	straggler time.Duration // the shortest wait for the last nodes, if above stragglerLeast

	mu    sync.Mutex // guards what follows
	votes []vote     // by node
	left  int        // how many have not answered
	heard int        // how many have, and did not fail
	over  bool
	late  func(i int, v vote)
}

// A question asks one node.
type question func(ctx context.Context, n *node) (driver.Place, error)

// rounds ask nodes. Every request that changes a claim goes through sendLocked.
type rounds struct {
	nodes   []*node
	need    int // how many are a majority
	workers *workers

	mu     *sync.Mutex                 // guards what follows; the driver's
	queues map[nodeQueue]chan struct{} // closed when the last call in the queue is over
}

// sendLocked asks some nodes at once, each after its earlier requests about a claim; an empty id waits for nothing. The
// calls go on without the caller, until the time is over. If a node's earlier requests take that long, ask gets an error,
// and must not ask the node.
func (rs *rounds) sendLocked(
	within time.Duration, id string, to []*node, ask func(ctx context.Context, n *node, err error),
) error {
	if rs.workers.ended {
		return driver.ErrClosed
	}
	ctx, cancel := context.WithTimeout(rs.workers.base, within)
	var left atomic.Int64
	left.Store(int64(len(to)) + 1)
	answered := func() {
		if left.Add(-1) == 0 {
			cancel()
		}
	}
	defer answered()
	for _, n := range to {
		slot := rs.queueLocked(nodeQueue{id, n.index})
		rs.workers.runLocked(func() {
			ask(ctx, n, slot.wait(ctx))
			answered()
			slot.leave() // the next request of the queue may look at the answer
		})
	}
	return nil
}

// ask puts a question to some nodes, or to all if to is nil.
func (rs *rounds) ask(within time.Duration, id string, to []int, enough func([]vote) bool, q question) (*round, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.askLocked(within, id, to, enough, q)
}

// askLocked is ask for a caller that holds mu.
func (rs *rounds) askLocked(
	within time.Duration, id string, to []int, enough func([]vote) bool, q question,
) (*round, error) {
	return rs.putLocked(&round{enough: enough, votes: make([]vote, len(rs.nodes))}, within, id, rs.of(to), q)
}

// askRest is ask for the nodes whose votes have not come yet. The votes that have come count as if they came now; nil means
// none.
func (rs *rounds) askRest(
	within time.Duration, id string, votes []vote, enough func([]vote) bool, q question,
) (*round, error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if votes == nil {
		return rs.askLocked(within, id, nil, enough, q)
	}
	r := &round{enough: enough, votes: slices.Clone(votes)}
	var rest []*node
	for i, v := range votes {
		if v.came {
			r.heard++
		} else {
			rest = append(rest, rs.nodes[i])
		}
	}
	return rs.putLocked(r, within, id, rest, q)
}

// of returns nodes by their numbers, or all nodes for nil.
func (rs *rounds) of(numbers []int) (list []*node) {
	if numbers == nil {
		return rs.nodes
	}
	for _, i := range numbers {
		list = append(list, rs.nodes[i])
	}
	return list
}

// putLocked puts a round's question.
func (rs *rounds) putLocked(r *round, within time.Duration, id string, to []*node, q question) (*round, error) {
	r.decided, r.most, r.begun, r.left = make(chan struct{}), make(chan struct{}), time.Now(), len(to)
	r.need, r.closed = rs.need, rs.workers.closed
	if r.left == 0 {
		close(r.decided)
	}
	return r, rs.sendLocked(within, id, to, func(ctx context.Context, n *node, err error) {
		v := vote{came: true, err: err}
		if err == nil {
			v.place, v.err = q(ctx, n)
		}
		r.cast(n.index, v)
	})
}

func (r *round) cast(i int, v vote) {
	r.mu.Lock()
	r.votes[i] = v
	r.left--
	if !r.over && (r.left == 0 || r.enough(r.votes)) {
		r.over = true
		close(r.decided)
	}
	if v.err == nil || v.gone() {
		if r.heard++; r.heard == r.need {
			close(r.most)
		}
	}
	late := r.late
	r.mu.Unlock()
	if late != nil {
		late(i, v)
	}
}

// vote returns a node's vote, as far as it has come.
func (r *round) vote(i int) vote {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.votes[i]
}

// When a majority of the nodes has answered an undecided round, wait waits for the rest stragglerTimes longer than that
// took, at least stragglerLeast.
const (
	stragglerTimes = 10
	stragglerLeast = 50 * time.Millisecond
)

// wait returns the votes once they decide. If ctx ends or the driver is closed before, it returns the votes so far and an
// error. When most nodes have answered and the round is still open, it does not wait much longer for the rest, unless the
// round is patient.
func (r *round) wait(ctx context.Context) ([]vote, error) {
	var err error
	most := r.most
	if r.patient {
		most = nil
	}
	select {
	case <-r.decided:
	case <-most:
		err = r.straggle(ctx)
	case <-ctx.Done():
		err = driver.Ended(ctx, true)
	case <-r.closed:
		err = driver.Unknown(driver.ErrClosed)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	return append([]vote(nil), r.votes...), err
}

// waitAll goes on waiting until all nodes have answered.
func (r *round) waitAll(ctx context.Context) ([]vote, error) {
	r.mu.Lock()
	r.patient, r.over, r.decided = true, r.left == 0, make(chan struct{})
	if r.over {
		close(r.decided)
	}
	r.mu.Unlock()
	return r.wait(ctx)
}

func (r *round) straggle(ctx context.Context) error {
	select {
	case <-r.decided: // mostly at the same time
		return nil
	default:
	}
	timer := time.NewTimer(max(stragglerLeast, r.straggler, stragglerTimes*time.Since(r.begun)))
	defer timer.Stop()
	select {
	case <-r.decided:
	case <-timer.C:
	case <-ctx.Done():
		return driver.Ended(ctx, true)
	case <-r.closed:
		return driver.Unknown(driver.ErrClosed)
	}
	return nil
}

// leave passes the votes that are not in seen to late, now or when they come.
func (r *round) leave(seen []vote, late func(i int, v vote)) {
	r.mu.Lock()
	r.late = late
	var between []int
	for i := range r.votes {
		if r.votes[i].came && !seen[i].came {
			between = append(between, i)
		}
	}
	r.mu.Unlock()
	for _, i := range between {
		late(i, r.votes[i]) // it does not change any more
	}
}
