package consul

import (
	"context"
	"time"

	"github.com/stilelock/stile/driver"
)

// A stake is what this client knows of a claim that it entered, or that it took up from another client. Its fields are
// guarded by the driver's mu, but for those that never change.
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

// A target is a key, or a folder of keys, that is waited for to change.
type target struct {
	key     string
	recurse bool
	index   uint64
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

// keep notes that a claim has this session.
func (d *Driver) keep(c *driver.Claim, s *session, is state) *stake {
	folder := d.folder(c.Name)
	st := &stake{
		id: c.ID, name: c.Name, folder: folder, key: folder + driver.EncodeName(c.ID), record: []byte(c.Record),
		session: s, exclusive: exclusive(c), state: is,
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.known[c.ID]; old != nil {
		old.unwatch()
	}
	d.known[c.ID] = st
	return st
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

// adopt takes up a claim that another client entered. The error is [driver.ErrGone] if it is not there.
func (d *Driver) adopt(ctx context.Context, c *driver.Claim) (*stake, *queue, error) {
	q, err := d.look(ctx, c.Name)
	if err != nil {
		return nil, nil, err
	}
	st, err := d.takeUp(ctx, c, q)
	return st, q, err
}

// takeUp is adopt with a queue that is known.
func (d *Driver) takeUp(ctx context.Context, c *driver.Claim, q *queue) (*stake, error) {
	e := q.find(c.ID)
	if e == nil || e.Left {
		return nil, driver.ErrGone
	}
	s, err := d.join(ctx, e.Session)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, driver.ErrSession
	}
	st := d.keep(c, s, claimUnsure)
	if q.has(e.Session) {
		d.move(st, claimHolding)
	}
	return st, nil
}

// elsewhere takes a claim up that is lost here, if it entered again by another client; else it returns why it was lost.
func (d *Driver) elsewhere(ctx context.Context, c *driver.Claim, st *stake, why error) (*stake, *queue, error) {
	d.finish(st, claimLost)
	q, err := d.look(ctx, c.Name)
	if err != nil {
		return nil, nil, why
	}
	if e := q.find(c.ID); e == nil || e.Session == st.session.id {
		return nil, nil, why
	}
	now, err := d.takeUp(ctx, c, q)
	return now, q, err
}
