package quorum

import (
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// A skippedLead is a lead that is passed over for a name, and until when.
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

// leads are what is known of the nodes that lead, and what the claims that wait at them are to do next.
type leads struct {
	mu      sync.Mutex               // guards what follows
	skipped map[string]skippedLead   // by name
	forgot  map[string]forgetfulLead // by name
	told    map[string]next          // by claim
}

func newLeads() *leads {
	return &leads{skipped: map[string]skippedLead{}, forgot: map[string]forgetfulLead{}, told: map[string]next{}}
}

// skip lets claims on a name go by another lead for a while.
func (t *leads) skip(lead *node, name string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.skipped) >= manyContended {
		clear(t.skipped)
	}
	t.skipped[name] = skippedLead{lead, now.Add(skippedFor)}
}

// skips returns the node that is not to lead a name, or nil.
func (t *leads) skips(name string, now time.Time) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.skipped[name]; !now.After(s.until) {
		return s.lead
	}
	return nil
}

// forgets notes that a lead granted a claim while another stood on a majority, and reports whether that has gone on for so long
// that the lead has lost the other one.
func (t *leads) forgets(m majority, lead *node, name string, by *driver.ClaimInfo, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.forgot[name]
	if f.lead != lead || !m.same(f.by, *by) || now.Sub(f.last) > stuckMost {
		if len(t.forgot) >= manyContended {
			clear(t.forgot)
		}
		f = forgetfulLead{lead: lead, by: *by, since: now}
	}
	f.last = now
	t.forgot[name] = f
	return now.Sub(f.since) >= stuckAfter
}

// tell notes what a claim is to do next.
func (t *leads) tell(id string, n next) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told[id] = n
}

// heard returns, once, what a claim was told to do next. It reports false if the claim was told nothing.
func (t *leads) heard(id string) (n next, told bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, told = t.told[id]
	delete(t.told, id)
	return n, told
}

// wasLate reports, once, whether others were quicker when a claim was told that its lead is free.
func (t *leads) wasLate(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.told[id]
	if !n.late {
		return false
	}
	n.late = false
	t.told[id] = n
	return true
}
