// Package ensemble connects a driver with ZooKeeper's servers: it opens one session after another, sends requests, and
// explains their errors. It knows nothing of claims.
package ensemble

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/work"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// Attempts is how often a request is sent again because a parent was removed or the session was over.
const Attempts = 4

// AtOnce is how many nodes are read together.
const AtOnce = 256

// An Ensemble is the servers as this client reaches them, by one session after another.
type Ensemble struct {
	Conf   wire.Config // of each session
	ACL    wire.ACL
	User   string // for messages
	Chroot string // "" or an absolute path
	Prefix string // the beginning of an absolute path to a lock, before the name

	Life *work.Life
	Ctx  context.Context // of the life

	mu      sync.Mutex // guards what follows; under it only the session's locks are taken
	session *wire.Session
	odd     []string // paths of nodes that are no claims, in a place for claims
}

// New returns an ensemble that is not configured yet.
func New() *Ensemble {
	e := &Ensemble{Life: work.Begin()}
	e.Ctx = e.Life.Context()
	return e
}

// Path returns the parent path of a name's claims.
func (e *Ensemble) Path(name string) (string, error) {
	path := e.Prefix + driver.EncodeName(name)
	if path == "/zookeeper" {
		const says = "the name zookeeper is reserved by zookeeper where there is neither chroot nor prefix"
		return "", driver.Refused(errors.New(says))
	}
	return path, nil
}

// Live returns the session, or a new one if the last is over.
func (e *Ensemble) Live() (*wire.Session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Ctx.Err() != nil {
		return nil, driver.ErrClosed
	}
	if e.session == nil || e.session.Err() != nil {
		e.openLocked()
	}
	return e.session, nil
}

// Current returns the latest session, or nil.
func (e *Ensemble) Current() *wire.Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.session
}

// openLocked begins a session.
func (e *Ensemble) openLocked() {
	conf := e.Conf
	if old := e.session; old != nil {
		conf.Seen = old.Seen() // a replaced or restored ensemble would give the same tickets again
		e.Life.Go(func() { old.Close(false) })
	}
	e.session = wire.New(&conf)
}

// Do sends requests on a session and explains their errors.
func (e *Ensemble) Do(ctx context.Context, s *wire.Session, calls ...*wire.Call) error {
	err := s.Do(ctx, calls...)
	if err == nil {
		driver.Heard(ctx, len(calls))
	}
	return e.Explain(ctx, err)
}

// Delete sends deletes. It reports whether one of them deleted its node, and whether one was refused since its node has
// another version. A missing node is no error.
func (e *Ensemble) Delete(ctx context.Context, s *wire.Session, calls ...*wire.Call) (deleted, changed bool, err error) {
	if err := e.Do(ctx, s, calls...); err != nil {
		return false, false, err
	}
	for _, del := range calls {
		switch {
		case del.Err == nil:
			deleted = true
		case errors.Is(del.Err, wire.BadVersion):
			changed = true
		case !errors.Is(del.Err, wire.NoNode):
			return deleted, changed, e.Undeleted(del.Target(), del.Err)
		}
	}
	return deleted, changed, nil
}

// Proven returns the calls with another one before them to which a quorum must agree, so that they show everything that was
// done earlier. A server answers reads by itself. So a server that was just elected, or one that was deposed and does not
// know it, can show the past: a node that it does not show is not certainly gone. Sync does not help, since a deposed leader
// answers it without the others.
func (e *Ensemble) Proven(calls ...*wire.Call) []*wire.Call {
	return append([]*wire.Call{wire.Agree(e.Conf.Path)}, calls...)
}

// Strangers returns the paths that Strange noted.
func (e *Ensemble) Strangers() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.odd)
}

const maxOdd = 8 // more are not listed

// Strange notes names under a lock that are no claims.
func (e *Ensemble) Strange(dir string, names []string) {
	if len(names) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range names {
		path := Shown(dir + "/" + name)
		if len(e.odd) < maxOdd && !slices.Contains(e.odd, path) {
			e.odd = append(e.odd, path)
		}
	}
}

// End closes the session, after the life has ended. If properly is false, the session's nodes stay until it times out.
func (e *Ensemble) End(properly bool) {
	e.mu.Lock()
	s := e.session
	e.session = nil
	e.mu.Unlock()
	if s != nil {
		s.Close(properly)
	}
}
