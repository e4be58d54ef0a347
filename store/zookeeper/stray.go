package zookeeper

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// A stray is a node of the driver's session that no local claim knows. There should be none: a claim is in the table before
// its node is asked for, and until the node is certainly gone. But a node that is missed would exist, and might hold a
// lock, for as long as the session lives. So the janitor compares: right after a connection was lost, since answers are
// lost with it, and every compareEvery while there are claims. Servers before 3.6 cannot list the nodes of a session.
const (
	compareEvery = 10 * time.Second
	compareAgain = time.Second // after a comparison that failed
)

const blindNote = "The servers are older than 3.6 and do not tell which nodes a session has: one that was missed stands until its " +
	"session ends."

// expect schedules a comparison within compareEvery, since a node is about to be asked for. The caller holds mu.
func (d *Driver) expect() {
	if d.compareAt == never && !d.blind {
		d.compareAt = wire.Now() + compareEvery
		d.look(d.compareAt)
	}
}

// compareWhenDue starts a comparison if one is due. The caller holds mu.
func (d *Driver) compareWhenDue(now time.Duration) {
	s := d.session
	switch {
	case d.compareAt == never:
	case d.blind || s == nil || s.Err() != nil: // the nodes go with the session
		d.compareAt = never
	case now < d.compareAt:
		d.next = min(d.next, d.compareAt)
	default:
		d.compareAt = never
		d.life.Go(func() { d.compare(s) })
	}
}

// compare finds the strays of a session and takes them up.
func (d *Driver) compare(s *wire.Session) {
	ctx, cancel := context.WithTimeout(d.ctx, tendWithin)
	defer cancel()
	list := wire.Ephemerals(d.prefix)
	err := d.do(ctx, s, list)
	if err == nil && list.Err == nil {
		err = d.takeUp(ctx, s, list.Children)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case errors.Is(list.Err, wire.Unimplemented):
		d.blind = true
	case err != nil:
		d.compareAt = min(d.compareAt, wire.Now()+compareAgain)
	case len(d.localClaims) > 0:
		d.expect()
	}
	if d.compareAt != never {
		d.look(d.compareAt)
	}
}

// takeUp makes local claims of strays, which the janitor removes like any claim that is over. It first reads each node,
// proven by a quorum: the server may have listed a node that is gone, or whose claim was released and is kept.
func (d *Driver) takeUp(ctx context.Context, s *wire.Session, paths []string) error {
	strays := d.strays(s, paths)
	if len(strays) == 0 {
		return nil
	}
	calls := d.proven()
	for _, path := range strays {
		calls = append(calls, wire.Get(path, nil))
	}
	if err := d.do(ctx, s, calls...); err != nil {
		return err
	}
	for _, get := range calls[1:] {
		if get.Err != nil || get.Stat.Owner != s.ID() || len(d.strays(s, []string{get.Target()})) == 0 {
			continue
		}
		dir, name := splitNode(get.Target())
		lc := &localClaim{
			who:   who{claim: driver.Claim{ID: "stray:" + get.Target()}, dir: dir, layout: d.layoutOf(dir), session: s},
			node:  znode{name: name, czxid: get.Stat.Czxid, version: get.Stat.Version},
			lease: lease{state: claimEnding, gone: driver.ErrGone},
		}
		d.mu.Lock()
		d.localClaims[lc.claim.ID] = lc
		if kept := readData(get.Data).Kept; kept > 0 {
			d.keep(lc, kept)
		}
		d.look(0)
		d.mu.Unlock()
	}
	return nil
}

// strays returns the paths of nodes that no local claim knows. If a local claim's node was asked for and its name is not
// known yet, its beginning is compared.
func (d *Driver) strays(s *wire.Session, paths []string) (strays []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, begun := map[string]bool{}, []string(nil)
	for _, lc := range d.localClaims {
		switch {
		case lc.session != s:
		case lc.node.known():
			known[lc.path()] = true
		default:
			begun = append(begun, lc.dir+"/"+lc.begins())
		}
	}
	for _, path := range paths {
		dir, name := splitNode(path)
		_, ours := d.layoutOf(dir).parse(name)
		for _, begin := range begun {
			ours = ours && !strings.HasPrefix(path, begin)
		}
		if ours && strings.HasPrefix(name, "_c_") && !known[path] {
			strays = append(strays, path)
		}
	}
	return strays
}
