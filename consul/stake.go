package consul

import (
	"context"
	"time"

	"github.com/stilelock/stile/driver"
)

// A stake is what this client knows of a claim: of one that it entered, or took up from another client, in the table, or of
// another client's for the length of a call. Its fields are guarded by the driver's mu, but for those that never change.
type stake struct {
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

// stakeOf returns what the driver knows of a claim, or nil.
func (d *Driver) stakeOf(c *driver.Claim) *stake {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.known[c.ID]
	if s == nil || s.name != c.Name {
		return nil
	}
	return s
}

// newStake returns a claim with its session. It is in the table once keep has it.
func (d *Driver) newStake(c *driver.Claim, s *session, is state) *stake {
	folder := d.folder(c.Name)
	return &stake{
		id: c.ID, name: c.Name, folder: folder, key: folder + driver.EncodeName(c.ID), record: []byte(c.Record),
		session: s, exclusive: exclusive(c), state: is,
	}
}

// keep puts a claim into the table.
func (d *Driver) keep(st *stake) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.known[st.id]; old != nil {
		old.unwatch()
	}
	d.known[st.id] = st
}

// move is become for those who do not hold mu.
func (d *Driver) move(st *stake, next state) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return st.become(next)
}

// finish brings a claim to its end and gives its session back, once: of two requests that both find it gone, such as a Leave
// and a renewal, the second finds it over.
func (d *Driver) finish(st *stake, end state) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if st.state.over() || !st.become(end) {
		return
	}
	if d.known[st.id] == st {
		delete(d.known, st.id)
	}
	if end == claimLost && st.session.alien {
		return // if the claim has left by its own client, the session serves another claim there
	}
	d.recycle(st.session)
}
