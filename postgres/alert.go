package postgres

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/stilelock/stile/driver"
)

// alerts notices that another server answers than before: a standby that was promoted. It may lack the last claims, so
// all of this driver's are renewed at once, and those that are lost are lost now.
type alerts struct {
	mu         sync.Mutex // guards what follows
	first, era string     // the timeline of the server when the driver was made, and now; empty if it does not tell
	tell       func(ids ...string)
	claims     map[string]bool // that this driver has entered, while anybody is to be told
}

// Alert is [driver.Alerter].
func (d *Driver) Alert(endangered func(ids ...string)) {
	d.alerts.mu.Lock()
	defer d.alerts.mu.Unlock()
	d.alerts.tell, d.alerts.claims = endangered, map[string]bool{}
}

// begin says what the timeline is at first.
func (a *alerts) begin(era string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.first, a.era = era, era
}

func (a *alerts) knows() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.era != ""
}

// heard says what the timeline is now.
func (a *alerts) heard(era string) {
	a.mu.Lock()
	if era == "" || era == a.era || a.era == "" {
		a.mu.Unlock()
		return
	}
	a.era = era
	tell, ids := a.tell, slices.Collect(maps.Keys(a.claims))
	a.mu.Unlock()
	if tell != nil && len(ids) > 0 {
		tell(ids...)
	}
}

func (a *alerts) add(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.claims != nil {
		a.claims[id] = true
	}
}

func (a *alerts) remove(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.claims, id)
}

// gone is the error for a claim that is not there.
func (a *alerts) gone() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == a.era {
		return driver.ErrGone
	}
	return fmt.Errorf("%w: a standby was promoted since (timeline %s, now %s)", driver.ErrGone, a.first, a.era)
}
