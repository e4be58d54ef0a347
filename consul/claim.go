package consul

import (
	"context"
	"time"

	"github.com/stilelock/stile/driver"
)

// A localClaim is what this client knows of a claim: of one that it entered, or took up from another client, in the
// table, or of another client's for the length of a call. Its fields are guarded by the driver's mu, but for those that
// never change.
type localClaim struct {
	id, name string
	folder   string // of the name
	key      string // the claim's own
	record   []byte

	session *session

	exclusive bool
	state     state   // moved by become
	wait      *target // of one that waits: what has to change before its turn comes; nil if that is not known

	watch *time.Timer // of one that holds: begins to watch its key, once it has held for a while
	stop  context.CancelFunc
}

// localClaimOf returns what the driver knows of a claim, or nil.
func (d *Driver) localClaimOf(c *driver.Claim) *localClaim {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.known[c.ID]
	if s == nil || s.name != c.Name {
		return nil
	}
	return s
}

// newLocalClaim returns a claim with its session. It is in the table once keep has it.
func (d *Driver) newLocalClaim(c *driver.Claim, s *session, is state) *localClaim {
	folder := d.folder(c.Name)
	return &localClaim{
		id: c.ID, name: c.Name, folder: folder, key: folder + driver.EncodeName(c.ID), record: []byte(c.Record),
		session: s, exclusive: exclusive(c), state: is,
	}
}

// keep puts a claim into the table.
func (d *Driver) keep(lc *localClaim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.known[lc.id]; old != nil {
		old.unwatch()
	}
	d.known[lc.id] = lc
}

// move is become for those who do not hold mu.
func (d *Driver) move(lc *localClaim, next state) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return lc.become(next)
}

// finish brings a claim to its end and gives its session back, once: of two requests that both find it gone, such as a Leave
// and a renewal, the second finds it over.
func (d *Driver) finish(lc *localClaim, end state) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if lc.state.over() || !lc.become(end) {
		return
	}
	if d.known[lc.id] == lc {
		delete(d.known, lc.id)
	}
	if end == claimLost && lc.session.borrowed {
		return // if the claim has left by its own client, the session serves another claim there
	}
	d.recycle(lc.session)
}
