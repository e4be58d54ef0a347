package line

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A stray is a node of the driver's session that no local claim knows. There should be none: a claim is in the table from
// before its node is asked for until the node is certainly gone. But a stray would stand, and might hold a lock, as long as
// the session lives. So the janitor compares the session's nodes with the table: right after a connection was lost, since
// answers are lost with it, and every compareEvery while there are claims. Servers before 3.6 cannot list the nodes of a
// session.
const (
	compareEvery = 10 * time.Second
	compareAgain = time.Second // after a comparison that failed
)

// expectLocked schedules a comparison within compareEvery, since a node is about to be asked for.
func (j *janitor) expectLocked() {
	if j.compareAt == Never && !j.blind {
		j.compareAt = wire.Now() + compareEvery
		j.scheduleLocked(j.compareAt)
	}
}

// compareWhenDueLocked starts a comparison if one is due.
func (j *janitor) compareWhenDueLocked(now time.Duration) {
	s := j.zk.Current()
	switch {
	case j.compareAt == Never:
	case j.blind || s == nil || s.Err() != nil: // the nodes go with the session
		j.compareAt = Never
	case now < j.compareAt:
		j.next = min(j.next, j.compareAt)
	default:
		j.compareAt = Never
		j.zk.Life.Go(func() { j.compare(s) })
	}
}

// compare finds the strays of a session and takes them up.
func (j *janitor) compare(s *wire.Session) {
	ctx, cancel := context.WithTimeout(j.zk.Ctx, tendWithin)
	defer cancel()
	list := wire.Ephemerals(j.zk.Prefix)
	err := j.zk.Do(ctx, s, list)
	if err == nil && list.Err == nil {
		err = j.takeUp(ctx, s, list.Children)
	}
	j.line.mu.Lock()
	defer j.line.mu.Unlock()
	switch {
	case errors.Is(list.Err, wire.Unimplemented):
		j.blind = true
	case err != nil:
		j.compareAt = min(j.compareAt, wire.Now()+compareAgain)
	case len(j.line.localClaims) > 0:
		j.expectLocked()
	}
	if j.compareAt != Never {
		j.scheduleLocked(j.compareAt)
	}
}

// takeUp makes local claims of strays, which the janitor then removes like any claim that must go. It first reads each node,
// proven by a quorum: the server may have listed a node that is gone, or whose claim has left and is kept.
func (j *janitor) takeUp(ctx context.Context, s *wire.Session, paths []string) error {
	strays := j.strays(s, paths)
	if len(strays) == 0 {
		return nil
	}
	calls := j.zk.Proven()
	for _, path := range strays {
		calls = append(calls, wire.Get(path, nil))
	}
	if err := j.zk.Do(ctx, s, calls...); err != nil {
		return err
	}
	for _, get := range calls[1:] {
		if get.Err != nil || get.Stat.Owner != s.ID() || len(j.strays(s, []string{get.Target()})) == 0 {
			continue
		}
		dir, name := znode.Split(get.Target())
		lc := &LocalClaim{
			who:   who{claim: driver.Claim{ID: "stray:" + get.Target()}, Folder: *j.line.Folder(s, dir)},
			node:  node{name: name, czxid: get.Stat.Czxid, version: get.Stat.Version},
			lease: lease{state: claimEnding, gone: driver.ErrGone},
		}
		j.line.mu.Lock()
		j.line.localClaims[lc.claim.ID] = lc
		if kept := znode.ReadData(get.Data).Kept; kept > 0 {
			j.keepLocked(lc, kept)
		}
		j.scheduleLocked(0)
		j.line.mu.Unlock()
	}
	return nil
}

// strays returns the paths of nodes that no local claim knows. For a local claim whose node was asked for, but has no known
// name yet, it compares the beginning of the name.
func (j *janitor) strays(s *wire.Session, paths []string) (strays []string) {
	j.line.mu.Lock()
	defer j.line.mu.Unlock()
	known, begun := map[string]bool{}, []string(nil)
	for _, lc := range j.line.localClaims {
		switch {
		case lc.Session != s:
		case lc.node.known():
			known[lc.pathLocked()] = true
		default:
			begun = append(begun, lc.dir+"/"+lc.beginsLocked())
		}
	}
	for _, path := range paths {
		dir, name := znode.Split(path)
		_, ours := j.line.LayoutOf(dir).Parse(name)
		for _, begin := range begun {
			ours = ours && !strings.HasPrefix(path, begin)
		}
		if ours && strings.HasPrefix(name, "_c_") && !known[path] {
			strays = append(strays, path)
		}
	}
	return strays
}
