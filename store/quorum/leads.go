package quorum

import (
	"time"

	"github.com/stilelock/stile/driver"
)

// A pass is a lead that is passed over for a name, and until when.
type skippedLead struct {
	lead  *node
	until time.Time
}

// A forgetfulLead is one that granted claims while another stood on a majority: which one, since when, and when it last did.
type forgetfulLead struct {
	lead        *node
	by          driver.ClaimInfo
	since, last time.Time
}

// A next is the next step of a claim that has waited.
type next struct {
	lead  *node // it asks this one before the others; nil if it asks all at once
	waits bool  // if it is refused, it waits there
	late  bool  // it does so in a moment: it was told that the lead is free, and others were quicker
}

// skipLead lets claims on a name go by another lead for a while.
func (d *Driver) skipLead(lead *node, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.skipped) >= manyContended {
		clear(d.skipped)
	}
	d.skipped[name] = skippedLead{lead, time.Now().Add(skippedFor)}
}

// forgetful notes that a lead, if it voted first, granted a claim while another stood on a majority, if one did. One
// that is leaving may have left the lead first. But if it stays, the lead has lost it, and the waiters there would
// hear again and again that the lock is free, and be in the way when the holder gives the lead its claim back: others
// lead.
func (d *Driver) forgetful(lead *node, first []vote, name string, by *driver.ClaimInfo) {
	if first == nil || by == nil {
		return
	}
	now := time.Now()
	d.mu.Lock()
	f := d.forgot[name]
	if f.lead != lead || !d.rule.same(f.by, *by) || now.Sub(f.last) > stuckMost {
		if len(d.forgot) >= manyContended {
			clear(d.forgot)
		}
		f = forgetfulLead{lead: lead, by: *by, since: now}
	}
	f.last = now
	d.forgot[name] = f
	d.mu.Unlock()
	if now.Sub(f.since) >= stuckAfter {
		d.skipLead(lead, name)
	}
}

// tell notes which node a claim is to ask next; with nil, all at once.
func (d *Driver) tell(c *driver.Claim, n *node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told[c.ID] = next{lead: n}
}

// wasLate reports, once, whether others were quicker when a claim was told that its lead is free.
func (d *Driver) wasLate(c *driver.Claim) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.told[c.ID]
	if !n.late {
		return false
	}
	n.late = false
	d.told[c.ID] = n
	return true
}
