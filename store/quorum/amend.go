package quorum

import (
	"context"
	"errors"
	"fmt"

	"github.com/stilelock/stile/driver"
)

// mostLags is how often one renewal asks a node again whose record is not the expected one.
const mostLags = 3

// proposed returns the claim for a renewal on the nodes. If the claim was changed, or is to be changed, it has its last
// record, and the record before that, which the nodes mostly have. The error says why the claim cannot be changed.
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

// propose notes the amendment that c asks for, and puts the claim's records into own.
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

// amendLocked gives a claim its new record, with a version above all others. From then on the claim is renewed with this
// record, even if the outcome of the request is unknown.
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

// newest returns the record that a claim must get on a node that has another one. If the node's record is later, another
// process has changed the claim. If this process has changed the claim too, the other one had the claim before, and this
// one's record gets a higher version. Otherwise the other one had the claim in between, and its record stays.
func (t *claims) newest(id, have string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.held[id]
	if h == nil {
		return have // the claim is leaving
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

// lagging renews a claim on a node whose record is not the expected one.
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
