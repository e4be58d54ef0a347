package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/known"
)

// A renewing is a batch of claims that all nodes are asked to renew at once.
type renewing struct {
	d       *Driver
	decided chan struct{} // closed when every claim is decided

	mu    sync.Mutex // guards what follows
	open  int        // claims that are not decided
	left  int        // nodes that have not answered
	tally []tally    // by claim
}

// A tally counts the nodes' answers about one claim.
type tally struct {
	leases  []time.Duration
	asks    int64 // the most that a node counted
	gone    int
	failed  error // the first failure
	failing int
	decided bool
	answer  driver.Renewal
	missing []int // nodes that lack it, or did not answer
}

// Renew renews a claim that a majority of the nodes renews. A claim is gone if a majority of the nodes lacks it. A node that
// lacks a renewed claim gets it again. If the claim was changed, a node counts only once it has the last record.
func (d *Driver) Renew(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	if !d.rule.ranked && driver.Amending(cs) {
		return driver.Unamended(ctx, cs, d.Renew)
	}
	answers := make([]driver.Renewal, len(cs))
	var (
		claims []*driver.Claim
		index  []int
	)
	errs := d.resume(ctx, cs)
	for i, c := range cs {
		var own *driver.Claim
		if errs != nil {
			answers[i].Err = errs[i]
		}
		if answers[i].Err == nil {
			own, answers[i].Err = d.proposed(c)
		}
		if answers[i].Err == nil {
			claims, index = append(claims, own), append(index, i)
		}
	}
	for j, a := range d.renewAll(ctx, claims) {
		answers[index[j]] = a
	}
	return answers
}

// renewAll renews claims on the nodes, as the nodes know them.
func (d *Driver) renewAll(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	answers := make([]driver.Renewal, len(cs))
	if len(cs) == 0 {
		return answers
	}
	r := &renewing{d: d, decided: make(chan struct{}), open: len(cs), left: len(d.nodes.list), tally: make([]tally, len(cs))}
	within := d.timeout(cs[0].TTL)
	for _, c := range cs {
		within = min(within, d.timeout(c.TTL))
	}
	err := driver.Ended(ctx, false)
	if err == nil {
		err = d.renew(r, within, cs)
	}
	if err == nil {
		select {
		case <-r.decided:
		case <-ctx.Done():
			err = driver.Ended(ctx, true)
		case <-d.workers.closed:
			err = driver.Unknown(driver.ErrClosed)
		}
	}
	var gone []*driver.Claim // which no Leave follows
	defer func() { d.claims.over(gone...) }()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range answers {
		answers[i] = r.tally[i].answer
		if !r.tally[i].decided {
			answers[i] = driver.Renewal{Err: err}
		}
		if errors.Is(answers[i].Err, driver.ErrGone) {
			gone = append(gone, cs[i])
		}
		d.claims.renewed(cs[i], &answers[i])
	}
	return answers
}

// renewed notes the answer for a claim that holds, and adds how often somebody has asked for the lock. It is chance which
// nodes answer first, so it keeps the highest count.
func (t *claims) renewed(c *driver.Claim, answer *driver.Renewal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.held[c.ID]
	if h == nil {
		return
	}
	if answer.Err == nil {
		h.until = known.Until(c.TTL)
	}
	h.asks = max(h.asks, answer.Asks)
	answer.Asks = h.asks
}

// renew sends the requests to the nodes.
func (d *Driver) renew(r *renewing, within time.Duration, claims []*driver.Claim) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rounds.sendLocked(within, "", d.nodes.list, func(ctx context.Context, n *node, _ error) {
		r.cast(n.index, n.renew(ctx, claims, d.claims.newest), claims)
	})
}

// renew renews claims on a node, by the ids by which the node knows them. If a claim was changed and the node has another
// record, newest returns the record that the claim must get there.
func (n *node) renew(ctx context.Context, claims []*driver.Claim, newest func(id, have string) string) []driver.Renewal {
	cs := make([]*driver.Claim, len(claims))
	for i, c := range claims {
		cs[i] = n.ids.as(c, n.index)
	}
	store, err := n.store()
	renewed := func() ([]driver.Renewal, error) {
		answers := store.Renew(ctx, cs)
		for i, c := range cs {
			if c.Amend != nil {
				answers[i] = n.lagging(ctx, store, c, func(have string) string { return newest(claims[i].ID, have) }, answers[i])
			}
		}
		return answers, nil
	}
	var answers []driver.Renewal
	if m, ok := store.(Member); err == nil && ok {
		answers, err = askMember(ctx, n, m, renewed)
	} else if err == nil {
		answers, err = renewed()
	}
	if err != nil {
		answers = make([]driver.Renewal, len(cs))
		for i := range answers {
			answers[i].Err = err
		}
	}
	return answers
}

// cast counts a node's answers.
func (r *renewing) cast(i int, answers []driver.Renewal, claims []*driver.Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left--
	for j, a := range answers {
		t := &r.tally[j]
		switch {
		case a.Err == nil:
			t.leases, t.asks = append(t.leases, a.TTL), max(t.asks, a.Asks)
		case errors.Is(a.Err, driver.ErrGone):
			t.gone++
			t.missing = append(t.missing, i)
		default:
			if t.failing++; t.failed == nil {
				t.failed = r.d.rule.says(i, strip(a.Err))
			}
			t.missing = append(t.missing, i)
		}
		if !t.decided && t.decide(r.d.rule, r.left) {
			if r.open--; r.open == 0 {
				close(r.decided)
			}
		}
		if r.left == 0 && t.answer.Err == nil {
			r.d.patch(claims[j], t.missing)
		}
	}
}

// decide sets a claim's answer if the nodes' answers so far decide it; left is the number of nodes that have not answered.
func (t *tally) decide(m majority, left int) bool {
	switch {
	case len(t.leases) >= m.need:
		t.answer.TTL, t.answer.Asks = m.lasting(t.leases), t.asks
	case m.prevents(t.gone):
		t.answer.Err = driver.ErrGone
	case len(t.leases)+left < m.need && !m.prevents(t.gone+left):
		t.answer.Err = driver.Unreachable(fmt.Errorf("%d of %d nodes renewed the claim, %d lack it, and a majority is %d: %w",
			len(t.leases), len(m.names), t.gone, m.need, t.failed))
	default:
		return false
	}
	t.decided = true
	return true
}

// patch repairs a claim that was renewed on a majority and is missing on some nodes.
func (d *Driver) patch(c *driver.Claim, nodes []int) {
	if len(nodes) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.claims.held[c.ID]
	if h == nil || h.repair != nil || d.workers.ended {
		return
	}
	h.missing = nodes
	d.repairSoonLocked(h)
}
