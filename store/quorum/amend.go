package quorum

import (
	"context"
	"errors"
	"fmt"

	"github.com/stilelock/stile/driver"
)

// mostLags is how often a node is asked again in one renewal because it has another record than was thought.
const mostLags = 3

// proposed returns a claim as the nodes are asked to renew it: if it was changed, or is to be, with its last record, and the one
// before, which they mostly have. The error says why it cannot be changed.
func (d *Driver) proposed(c *driver.Claim) (*driver.Claim, error) {
	own := *c
	own.Wait, own.Amend = c.TTL, nil
	if !d.rule.ranked {
		return &own, nil
	}
	if c.Amend != nil && !d.Traits().Amends {
		return nil, driver.ErrUnsupported
	}
	return &own, d.claims.propose(c, &own, d.nodes.proposal())
}

// propose has a claim asked for with the record that it has, or is to have.
func (t *claims) propose(c, own *driver.Claim, proposal int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.held[c.ID]
	if c.Amend != nil {
		if err := h.amendLocked(c, proposal); err != nil {
			return err
		}
	}
	if h != nil && h.changedLocked() {
		own.Record, own.Amend = h.before, &driver.Amendment{Record: h.record}
	}
	return nil
}

// amendLocked gives a claim the record that it is to have, with a version above all others. From then on the claim
// is renewed with that, also if it is not known what became of the request.
func (h *holding) amendLocked(c *driver.Claim, proposal int64) error {
	is, version := c.Record, int64(0)
	if h != nil {
		is, version = CutVersion(h.record)
	}
	weight, record, err := c.Amended(c.Weight, is, h != nil)
	switch {
	case err != nil:
		return err
	case weight != c.Weight:
		return fmt.Errorf("%w: a quorum has no readers", driver.ErrUnsupported)
	case record != is:
		h.before, h.own = h.record, true
		h.record = WithVersion(record, max(version+1, proposal))
	}
	return nil
}

// changedLocked reports whether the claim got another record.
func (h *holding) changedLocked() bool {
	_, version := CutVersion(h.record)
	return version > 0
}

// newest returns the record that a claim is to have on a node that has another one. If that is a later one, another process has
// changed the claim: one that had it before, if this one changed it since it has it, and else one that had it in between.
func (t *claims) newest(id, have string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.held[id]
	if h == nil {
		return have // it is leaving
	}
	switch {
	case !later(have, h.record):
	case h.own:
		is, _ := CutVersion(h.record)
		_, version := CutVersion(have)
		h.record = WithVersion(is, version+1)
	default:
		h.record = have
	}
	return h.record
}

// lagging renews a claim on a node where it has another record than was thought.
func (n *node) lagging(
	ctx context.Context, store driver.Driver, c *driver.Claim, newest func(have string) string, a driver.Renewal,
) driver.Renewal {
	for range mostLags {
		is, differs := errors.AsType[*driver.RecordError](a.Err)
		if !differs {
			return a
		}
		own := *c
		own.Record, own.Amend = is.Have, &driver.Amendment{Record: newest(is.Have)}
		a = store.Renew(ctx, []*driver.Claim{&own})[0]
	}
	return a
}
