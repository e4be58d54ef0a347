package postgres

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/stilelock/stile/driver"
)

// alerts notices that another server answers than before. A standby that was promoted may lack the last claims, so all of
// this driver's are renewed at once, and those that are lost are lost now. What another cluster has, such as one that was
// made from a copy, is worth nothing: all are lost then.
type alerts struct {
	mu         sync.Mutex // guards what follows
	first, era string     // of the server when the driver was made, and now; empty if it does not tell
	tell       func(ids ...string)
	claims     map[string]bool // that this driver has entered, while anybody is to be told
	fallen     map[string]bool // those of them that another cluster has, if it has them
}

// An era is how a server differs from one that follows it: the timeline of its log, which a promotion changes, and after
// a space the identifier of its cluster, which servers that tell it keep for as long as they live. The first that can be
// asked for is used.
var eras = []string{
	"(SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) || ' ' || system_identifier FROM pg_control_system())",
	"left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)",
}

// Alert is [driver.Alerter].
func (d *Driver) Alert(endangered func(ids ...string)) {
	d.alerts.mu.Lock()
	defer d.alerts.mu.Unlock()
	d.alerts.tell, d.alerts.claims = endangered, map[string]bool{}
}

// begin says what the era is at first.
func (a *alerts) begin(era string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.first, a.era = era, era
}

// heard says what the era is now.
func (a *alerts) heard(era string) {
	a.mu.Lock()
	if era == "" || era == a.era || a.era == "" {
		a.mu.Unlock()
		return
	}
	_, was, _ := strings.Cut(a.era, " ")
	_, is, _ := strings.Cut(era, " ")
	if was != is {
		a.fallen = maps.Clone(a.claims)
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
	delete(a.fallen, id)
}

// fell reports whether a claim was in another cluster.
func (a *alerts) fell(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fallen[id]
}

// gone is the error for a claim that is not there.
func (a *alerts) gone() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == a.era {
		return driver.ErrGone
	}
	before, one, _ := strings.Cut(a.first, " ")
	now, other, _ := strings.Cut(a.era, " ")
	if one != other {
		return fmt.Errorf("%w: another cluster of PostgreSQL answers than before (system %s, now %s)", driver.ErrGone, one, other)
	}
	return fmt.Errorf("%w: a standby was promoted since (timeline %s, now %s)", driver.ErrGone, before, now)
}
