package postgres

import (
	"fmt"
	"strings"
	"sync"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/known"
)

// A failoverWatch notices that another server answers than before. A promoted standby may lack the last claims, so all of
// this driver's claims are renewed at once, to find the lost ones. In another cluster, such as one made from a copy, no
// claim counts: all are lost.
type failoverWatch struct {
	expression string // returns a server's id

	mu         sync.Mutex // guards the fields below
	first, now string     // ids of the server when the driver was made, and now; empty if unknown
	tell       func(ids ...string)
	claims     known.IDs       // entered by this driver; empty if nobody wants alerts
	fallen     map[string]bool // claims of another cluster, until they leave or the next cluster answers
}

// serverIDs are expressions whose value differs between a server and its successor: the timeline of its log, which a
// promotion changes, and after a space the identifier of its cluster, which never changes. The driver uses the first
// expression that its user may read.
var serverIDs = []string{
	"(SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) || ' ' || system_identifier FROM pg_control_system())",
	"left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)",
}

// alert sets the function that gets the ids of claims in danger.
func (w *failoverWatch) alert(endangered func(ids ...string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell, w.claims = endangered, known.IDs{}
}

// begin sets the server's first id.
func (w *failoverWatch) begin(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.first, w.now = id, id
}

// heard sets the server's present id.
func (w *failoverWatch) heard(id string) {
	w.mu.Lock()
	if id == "" || id == w.now || w.now == "" {
		w.mu.Unlock()
		return
	}
	_, was, _ := strings.Cut(w.now, " ")
	_, is, _ := strings.Cut(id, " ")
	tell, ids := w.tell, w.claims.All()
	if was != is {
		w.fallen = map[string]bool{}
		for _, claim := range ids {
			w.fallen[claim] = true
		}
	}
	w.now = id
	w.mu.Unlock()
	if tell != nil && len(ids) > 0 {
		tell(ids...)
	}
}

// add notes that a claim is in the store, and that its lease begins now.
func (w *failoverWatch) add(c *driver.Claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tell != nil {
		w.claims.Add(c)
	}
}

// remove notes that a claim has left.
func (w *failoverWatch) remove(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims.Drop(id)
	delete(w.fallen, id)
}

// forget notes that a claim was reported gone. A fallen claim stays fallen: the caller may not have got the answer, and asks
// again.
func (w *failoverWatch) forget(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims.Drop(id)
}

// fell reports whether a claim was in another cluster.
func (w *failoverWatch) fell(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fallen[id]
}

// gone returns the error for a missing claim.
func (w *failoverWatch) gone() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == w.now {
		return driver.ErrGone
	}
	before, one, _ := strings.Cut(w.first, " ")
	now, other, _ := strings.Cut(w.now, " ")
	if one != other {
		return fmt.Errorf("%w: another cluster of PostgreSQL answers than before (system %s, now %s)",
			driver.ErrGone, one, other)
	}
	return fmt.Errorf("%w: a standby was promoted since (timeline %s, now %s)", driver.ErrGone, before, now)
}
