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
	guarded bool    // the session holds the guard key
	told    bool    // it was told here that it holds
	first   bool    // what it waited for is gone: it may be its turn
	wait    *target // what has to change before its turn comes; nil if that is not known

	watch *time.Timer // begins to watch the claim's key, once it has held for a while
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
func (d *Driver) keep(c *driver.Claim, s *session) *stake {
	folder := d.folder(c.Name)
	st := &stake{id: c.ID, name: c.Name, folder: folder, key: folder + driver.EncodeName(c.ID), record: []byte(c.Record), session: s}
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.known[c.ID]; old != nil {
		old.unguard()
	}
	d.known[c.ID] = st
	return st
}

// drop forgets a claim that is not in the store any more, and returns its session, or nil if that was done before.
func (d *Driver) drop(st *stake) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	st.unguard()
	if d.known[st.id] != st {
		return nil
	}
	delete(d.known, st.id)
	return st.session
}

// lost forgets a claim that went without having left here, and ends its session, which may hold a key yet. A session of
// another client is let be: if the claim has left there, it serves another.
func (d *Driver) lost(st *stake) {
	if s := d.drop(st); s != nil && !s.alien {
		d.taint(s)
		d.recycle(s)
	}
}

// taint notes that a request with a session may be on its way, so that the session must not serve another claim.
func (d *Driver) taint(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.tainted = true
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
	st := d.keep(c, s)
	d.mu.Lock()
	st.guarded = q.has(e.Session)
	d.mu.Unlock()
	return st, nil
}

// elsewhere takes a claim up that is lost here, if it entered again by another client; else it returns why it was lost.
func (d *Driver) elsewhere(ctx context.Context, c *driver.Claim, st *stake, why error) (*stake, *queue, error) {
	d.lost(st)
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
