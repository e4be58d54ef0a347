package quorum

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// A round is one question that is put to all nodes at once. It is decided when the answers that are there settle it;
// later answers go to the round's present owner.
type round struct {
	decided chan struct{}
	most    chan struct{} // closed when a majority of the nodes has answered, whatever it was
	begun   time.Time
	need    int
	enough  func(votes []vote) bool
	cancel  context.CancelFunc
	patient bool // its owner waits until it is decided

	least     int64         // ticket that was asked for
	straggler time.Duration // how long the last nodes are waited for at least, if it is longer than stragglerLeast

	mu    sync.Mutex // guards what follows
	votes []vote     // by node
	left  int        // how many have not answered
	heard int        // how many have, and did not fail
	over  bool
	late  func(i int, v vote)
}

// A question asks one node.
type question func(ctx context.Context, n *node) (driver.Place, error)

// askNodes puts a question to some nodes, or with nil to all, each after the node's earlier requests about this
// claim; an empty id waits for nothing. The calls go on when the caller does not, until the time is over.
func (d *Driver) askNodes(within time.Duration, id string, to []int, enough func([]vote) bool, q question) (*round, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.askNodesLocked(within, id, to, enough, q)
}

// askRest is ask of the nodes whose votes have not come yet. The others' count as if they came now.
func (d *Driver) askRest(within time.Duration, id string, votes []vote, enough func([]vote) bool, q question) (*round, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if votes == nil {
		return d.askNodesLocked(within, id, nil, enough, q)
	}
	var rest []int
	heard := 0
	for i, v := range votes {
		if v.came {
			heard++
		} else {
			rest = append(rest, i)
		}
	}
	r := &round{enough: enough, votes: slices.Clone(votes), heard: heard}
	return r, d.putLocked(r, within, id, rest, q)
}

// askNodesLocked is ask for who holds mu.
func (d *Driver) askNodesLocked(within time.Duration, id string, to []int, enough func([]vote) bool, q question) (*round, error) {
	r := &round{enough: enough, votes: make([]vote, len(d.nodes))}
	if to == nil {
		to = d.all
	}
	return r, d.putLocked(r, within, id, to, q)
}

// putLocked puts a round's question.
func (d *Driver) putLocked(r *round, within time.Duration, id string, to []int, q question) error {
	if d.ended {
		return driver.ErrClosed
	}
	r.decided, r.most, r.begun, r.need, r.left = make(chan struct{}), make(chan struct{}), time.Now(), d.rule.need, len(to)
	ctx, cancel := context.WithTimeout(d.base, within)
	r.cancel = cancel
	if r.left == 0 {
		cancel()
		close(r.decided)
		return nil
	}
	for _, i := range to {
		n := d.nodes[i]
		slot := d.queueLocked(nodeQueue{id, i})
		d.workLocked(func() {
			var v vote
			if v.err = slot.wait(ctx); v.err == nil {
				v.place, v.err = q(ctx, n)
			}
			v.came = true
			r.cast(i, v)
			slot.leave() // the next request of the queue may look at the vote
		})
	}
	return nil
}

func (r *round) cast(i int, v vote) {
	r.mu.Lock()
	r.votes[i] = v
	if r.left--; r.left == 0 {
		r.cancel()
	}
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

// The last nodes of an undecided round are waited for as many times longer as the first majority took, and at least so
// long.
const (
	stragglerTimes = 10
	stragglerLeast = 50 * time.Millisecond
)

// wait returns the votes once they decide, or when ctx ends or the driver is closed: the votes until then, with an
// error. When most nodes have answered and it is still open, the rest is not waited for much longer, unless the round
// is patient.
func (r *round) wait(ctx context.Context, d *Driver) ([]vote, error) {
	var err error
	most := r.most
	if r.patient {
		most = nil
	}
	select {
	case <-r.decided:
	case <-most:
		err = r.straggle(ctx, d)
	case <-ctx.Done():
		err = driver.Ended(ctx, true)
	case <-d.closed:
		err = driver.Unknown(driver.ErrClosed)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	return append([]vote(nil), r.votes...), err
}

// waitAll goes on waiting, for all nodes, as long as they may take.
func (r *round) waitAll(ctx context.Context, d *Driver) ([]vote, error) {
	r.mu.Lock()
	r.patient, r.over, r.decided = true, r.left == 0, make(chan struct{})
	if r.over {
		close(r.decided)
	}
	r.mu.Unlock()
	return r.wait(ctx, d)
}

func (r *round) straggle(ctx context.Context, d *Driver) error {
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
	case <-d.closed:
		return driver.Unknown(driver.ErrClosed)
	}
	return nil
}

// leave hands over, from now on, the votes that were not among those seen.
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
