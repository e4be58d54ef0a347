package zookeeper

import (
	"context"
	"errors"
	"hash/maphash"
	"math"
	"slices"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// maxTicket is above all tickets.
const maxTicket = 1 << 53

// A lone is what is known of a name that nobody else has wanted of late: a claim of this driver was first in its queue, and
// was removed by a request that was answered. If the next claim's number is the next number, that claim holds, and need not
// look: a parent counts every child that it is given, so nobody has come since the earlier claim, and nobody was before that.
//
// Another parent of the same path counts anew. A watch tells that the parent was removed, on the connection on which the
// number comes, and before that. It was set while the earlier claim was there, or one before that, and stands still.
//
// Such a name is locked and unlocked by two requests in place of three. One goroutine does so in 0.77 of the time, 0.72 to 0.81.
// 64 goroutines on 64 names do so 1.46 times as often, 1.07 to 2.20, by this and by what package wire sends together:
//
//	go run ./proof/benchbefore -stores zookeeper -only '^alone$' -rounds 9 -seconds 0.4 466ca16
//	go run ./proof/benchbefore -stores zookeeper -only '^apart$' -rounds 31 -seconds 0.3 466ca16
type lone struct {
	dir     string // that its node was under
	session *wire.Session
	last    int32       // the number of the claim that was removed
	calm    bool        // it came right after the one before it, so that a watch is worth its request
	watch   *wire.Watch // on the parent; nil if there was none yet
}

// maxLone is of how many names this is known at most: each may have a watch at the server.
const maxLone = 1024

var loneSeed = maphash.MakeSeed()

// loneAt returns what is known of the name at a path, and where that would be. The caller holds mu.
func (d *Driver) loneAt(dir string) (l *lone, at **lone) {
	at = &d.lones[maphash.String(loneSeed, dir)%maxLone]
	if l = *at; l != nil && l.dir == dir {
		return l, at
	}
	return nil, at
}

// looks returns the requests by which a claim that enters learns of others, each of which may be nil: the list, unless it is
// alone most likely, and one for a watch, if the next claim might be.
func (d *Driver) looks(s *wire.Session, dir string) (list, exists *wire.Call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, _ := d.loneAt(dir)
	calm := l != nil && l.session == s && l.calm
	if calm && l.stands() {
		return nil, nil
	}
	if calm {
		exists = wire.Exists(dir, wire.NewWatch(func() {}))
	}
	return wire.List(dir, nil), exists
}

// aloneBy reports whether a claim whose node was made just now is alone by its number. If it is not, others want the name.
func (d *Driver) aloneBy(lc *localClaim) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, _ := d.loneAt(lc.dir)
	if l == nil || l.session != lc.session {
		return false
	}
	if n, ok := d.numberOf(lc); ok && n-1 == l.last && l.stands() && lc.ticket < maxTicket {
		return true
	}
	l.calm = false
	l.watch.Drop()
	return false
}

// numberOf returns the number of a claim's node, unless there is none or it is near the end, where numbers are given twice.
// The caller holds mu.
func (d *Driver) numberOf(lc *localClaim) (int32, bool) {
	n, ok := d.layoutOf(lc.dir).parse(lc.name)
	return n.seq, ok && n.seq >= 0 && n.seq < math.MaxInt32-1
}

// watchLone has a watch on the parent of a claim that is there, if the request for it was answered so.
func (d *Driver) watchLone(lc *localClaim, exists *wire.Call) {
	if exists == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l, _ := d.loneAt(lc.dir)
	if exists.Err != nil || l == nil || l.session != lc.session || lc.watch != nil {
		exists.Unwatch()
		return
	}
	lc.watch = exists.Watch()
}

// wasLone notes that a claim was removed, if it was the first of its queue.
func (d *Driver) wasLone(lc *localClaim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, ok := d.numberOf(lc)
	if !ok || !lc.first || d.layout == semaphoreLayout {
		return
	}
	l, at := d.loneAt(lc.dir)
	if l == nil && (*at).stands() {
		return // that is another name's place
	}
	if l == nil || l.session != lc.session {
		l = &lone{dir: lc.dir, session: lc.session, last: n}
		*at = l
	}
	l.calm, l.last = n-1 == l.last, n
	if lc.watch != nil {
		l.watch.Drop()
		l.watch, lc.watch = lc.watch, nil
	}
}

// stands reports whether the parent is watched. The caller holds mu.
func (l *lone) stands() bool { return l != nil && l.watch.Stands() }

// judgeLate is judgeFresh for a claim that has not asked for the list together with its node.
func (d *Driver) judgeLate(ctx context.Context, c *driver.Claim, lc *localClaim) (driver.Place, error) {
	if d.aloneBy(lc) {
		return d.notePlace(c, lc, 0, true, true)
	}
	list := wire.List(lc.dir, nil)
	if err := d.do(ctx, lc.session, list); err != nil {
		return driver.Place{}, err
	}
	if errors.Is(list.Err, wire.NoNode) || list.Err == nil && !slices.Contains(list.Children, d.nameOf(lc)) {
		return driver.Place{}, errUnproven // the session may have moved to another server since
	}
	return d.judge(ctx, c, lc, list, true, false)
}
