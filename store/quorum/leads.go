package quorum

import (
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
)

// A skippedLead is a node that must not lead a name, and until when.
type skippedLead struct {
	lead  *node
	until time.Time
}

// A forgetfulLead is a lead that granted claims while another claim stood on a majority: which one, since when, and when it
// last did.
type forgetfulLead struct {
	lead        *node
	by          driver.ClaimInfo
	since, last time.Time
}

// A next is the next step of a claim that has waited.
type next struct {
	lead  *node // the claim asks this node before the others; nil if it asks all at once
	waits bool  // if the lead refuses the claim, it waits there
	late  bool  // the claim pauses first: when it heard that the lead is free, others were quicker
}

// leads has the client's knowledge of the leads, and the next steps of the claims that wait at them.
type leads struct {
	mu      sync.Mutex               // guards what follows
	skipped map[string]skippedLead   // by name
	forgot  map[string]forgetfulLead // by name
	told    map[string]next          // by claim
}

func newLeads() *leads {
	return &leads{skipped: map[string]skippedLead{}, forgot: map[string]forgetfulLead{}, told: map[string]next{}}
}

// skip has another node lead a name for a while.
func (t *leads) skip(lead *node, name string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.skipped) >= manyContended {
		clear(t.skipped)
	}
	t.skipped[name] = skippedLead{lead, now.Add(skippedFor)}
}

// skips returns the node that must not lead a name, or nil.
func (t *leads) skips(name string, now time.Time) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.skipped[name]; !now.After(s.until) {
		return s.lead
	}
	return nil
}

// forgets notes that a lead granted a claim while another stood on a majority. It reports whether this has gone on until the
// lead must have lost the other claim.
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

// tell notes a claim's next step.
func (t *leads) tell(id string, n next) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told[id] = n
}

// heard returns a claim's next step, once. It returns false if there is none.
func (t *leads) heard(id string) (n next, told bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, told = t.told[id]
	delete(t.told, id)
	return n, told
}

// wasLate reports, once, whether others were quicker when a claim heard that its lead is free.
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
