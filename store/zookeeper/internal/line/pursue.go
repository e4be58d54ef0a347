package line

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A target is the claim that a call is about, and the folder of its node.
type target struct {
	*Folder
	line   *Keeper
	lc     *LocalClaim // nil for another client's claim
	begins string      // how the names of the nodes of another client's claim begin
}

// pursue pursues a goal about a claim of this client. If its node is kept afterwards, by this call or by another client, it
// notes so. In the second case the error is [errKept].
func (k *Keeper) pursue(ctx context.Context, lc *LocalClaim, next goal) (move, error) {
	t := target{Folder: &lc.Folder, line: k, lc: lc}
	m, v, err := t.pursue(ctx, next)
	if err == nil && v.data.Kept > 0 {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.janitor.keepLocked(lc, v.data.Kept)
	}
	if m.verb == endKept {
		err = errKept
	}
	return m, err
}

// errKept says that another client released a claim, and keeps it.
var errKept = fmt.Errorf("%w: it has left and is kept", driver.ErrGone)

// pursue makes the moves of a goal until its end, and returns the end and the last view; the error of endRefused is its
// reason. With any other error, pursue returns the move that failed, whose outcome is unknown unless the error says otherwise.
// Only pursue changes or removes the node of the claim that a call is about; create.go makes it.
func (t *target) pursue(ctx context.Context, next goal) (m move, v view, err error) {
	for {
		switch m = next(v); m.verb {
		case moveSeek:
			v, err = t.seek(ctx, v)
		case moveRead:
			v, err = t.look(ctx, v, m.enough)
		case moveWrite, moveDelete:
			v, err = t.change(ctx, v, m)
		default:
			return m, v, m.why
		}
		if err != nil {
			return m, v, err
		}
	}
}

// seek makes moveSeek. The name of this client's node is known, or settle finds it.
func (t *target) seek(ctx context.Context, v view) (view, error) {
	if t.lc != nil {
		stands, err := t.line.settle(ctx, t.lc)
		if err != nil || !stands {
			return view{missing: true}, err
		}
		return t.line.viewOf(t.lc, v), nil
	}
	name, err := t.named(ctx, t.begins)
	return view{name: name, missing: name == ""}, err
}

// viewOf returns the view of a claim of this client by what the client knows. The view before shows which name no node has.
func (k *Keeper) viewOf(lc *LocalClaim, before view) view {
	k.mu.Lock()
	defer k.mu.Unlock()
	v := view{
		name: lc.node.name, known: knownVersion, version: lc.node.version,
		weight: lc.node.weight, holds: lc.lease.state == claimHolding,
	}
	if lc.lease.state == claimSpent {
		v.version = -1
	}
	v.missing = before.gone && before.name == v.name
	return v
}

// look makes moveRead.
func (t *target) look(ctx context.Context, v view, enough knowledge) (view, error) {
	get, list := wire.Get(t.dir+"/"+v.name, nil), wire.List(t.dir, nil)
	calls, queue := t.zk.Proven(get), enough == knownQueue
	if queue {
		calls = t.zk.Proven(list, get)
	}
	if err := t.zk.Do(ctx, t.Session, calls...); err != nil {
		return v, err
	}
	q, _ := t.layout.NewQueue(list.Children)
	at := znode.Find(q, v.name)
	switch {
	case errors.Is(get.Err, wire.NoNode) || queue && get.Err == nil && list.Err == nil && at < 0:
		v.gone = true
	case get.Err != nil || list.Err != nil:
		v.why = t.zk.Refused(get.Target(), cmp.Or(get.Err, list.Err))
	default:
		v.known, v.version, v.data = enough, get.Stat.Version, znode.ReadData(get.Data)
		v.holds = queue && at < q.Holding() || !queue && v.holds
	}
	return v, nil
}

// change makes moveWrite or moveDelete. The weight is in the name, so for another weight, another node replaces the node.
func (t *target) change(ctx context.Context, v view, m move) (view, error) {
	path, replaces := t.dir+"/"+v.name, m.verb == moveWrite && m.weight != v.weight
	call, refused := wire.SetAt(path, m.data.Text(), v.version), t.zk.Refused
	switch {
	case m.verb == moveDelete:
		call, refused = wire.DeleteAt(path, v.version), t.zk.Undeleted
	case replaces:
		if call = t.line.replacement(t.lc, v, m); call == nil {
			return view{missing: true}, nil
		}
	}
	err := t.Session.Do(ctx, call)
	if replaces && ensemble.InVain(err) {
		t.line.settleBy(t.lc, call, &wire.Call{Err: err}) // no call needs to wait for the answer
	}
	if err = t.zk.Explain(ctx, err); err == nil && replaces {
		_, err = t.line.settle(ctx, t.lc)
		err = driver.Unknown(err) // the request itself was answered
	}
	if err != nil {
		return v, err
	}
	return v.wasChanged(m, call.Err, refused(path, call.Err)), nil
}

// replacement returns the request that replaces a claim's node by one of another weight; settle finds out its outcome. The
// new node has the old one's number, so that Curator's recipes find it in the same place of the queue, and names the claim's
// first node in its data. Clients that watch the old node look again. It returns nil if the claim must go, or has another
// node by now.
//
// If the new node came first and the old one went after that, as in Curator's recipe, the claim would stand behind all
// waiters, and a writer among them would hold beside it.
func (k *Keeper) replacement(lc *LocalClaim, v view, m move) *wire.Call {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !lc.lease.stands() || lc.node.name != v.name {
		return nil
	}
	number := strings.TrimPrefix(lc.node.name, lc.stem(lc.node.weight))
	m.data.First = lc.node.first
	path := lc.dir + "/" + lc.stem(m.weight) + number
	lc.replaceLocked(wire.Replace(lc.pathLocked(), v.version, path, m.data.Text(), k.zk.ACL))
	return lc.asks.create
}
