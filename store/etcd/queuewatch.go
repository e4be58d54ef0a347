package etcd

import (
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

const (
	// watchAfter is how long a claim holds before it subscribes. Most critical sections end before.
	watchAfter = 100 * time.Millisecond

	// lingerFor is how long a watch goes on after its last claim has unsubscribed.
	lingerFor = 2 * time.Second

	// watchAgain is how soon a claim that holds subscribes again after etcd ended its watch.
	watchAgain = time.Second
)

// watches are the watches of all names. They pass etcd's events to the claims' listeners, and know nothing of the table of
// claims.
type watches struct {
	wire *wire

	mu         *sync.Mutex // the driver's, shared with the claims; guards the fields below, the listeners and the claims
	open       map[watchKey]*queueWatch
	stream     *watchStream        // for new watches; nil if there is none
	endangered func(ids ...string) // set by Alert
}

func newWatches(mu *sync.Mutex, w *wire) *watches {
	return &watches{wire: w, mu: mu, open: map[watchKey]*queueWatch{}, endangered: func(...string) {}}
}

// A queueWatch reports the deleted keys of one name. For claims that take a part of the capacity it also reports the keys
// that an amendment rewrites. New keys do not matter: they queue behind all present ones.
type queueWatch struct {
	watchKey
	on     *watchStream
	number int64                // on the stream
	heard  int64                // it passed on every event up to this revision, or the event came before the watch
	claims map[*localClaim]bool // its subscribers
	idle   *time.Timer          // nil before it was first without claims
}

// A watchKey identifies a watch: the name, and whether its claims take the whole capacity. Such a claim holds once no key is
// ahead, so etcd sends it only deletions. A hand-over among 64 clients then takes 66 messages of the server, in place of 129
// (go run . -store=etcd -only='^passing$', in the folder proof/bench).
type watchKey struct {
	name  string
	whole bool
}

// present notes that the key of a renewed claim was there at a revision. It makes a claim that holds subscribe.
func (ws *watches) present(k *localClaim, at int64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if k.by == nil && k.alarms() {
		k.knows, k.seen = informed, max(k.seen, at)
		ws.watchSoonLocked(k, watchAfter)
	}
}

// watchOver subscribes a claim that holds. If the deletion of its key may have gone unreported, its client is alerted to
// renew it.
func (ws *watches) watchOver(k *localClaim) {
	ws.mu.Lock()
	k.watching = nil
	missed := false
	if k.known && k.by == nil && ws.wire.ctx.Err() == nil {
		missed = k.knows == deaf || ws.joinLocked(k).heard > k.seen
	}
	tell := ws.endangered
	ws.mu.Unlock()
	if missed {
		tell(k.id)
	}
}

// joinLocked subscribes a claim to the watch of its name, and begins the watch if there is none.
func (ws *watches) joinLocked(k *localClaim) *queueWatch {
	w := ws.open[k.watchKey()]
	if w == nil {
		// The watch begins after the revision that this claim has seen. A claim that has seen less compares it with heard.
		w = &queueWatch{watchKey: k.watchKey(), claims: map[*localClaim]bool{}, heard: k.seen}
		ws.listenLocked(w, k.seen)
		ws.open[w.watchKey] = w
	}
	ws.subscribeLocked(k, w)
	return w
}

func (ws *watches) subscribeLocked(k *localClaim, w *queueWatch) {
	k.knows, k.by = hearing, w
	w.claims[k] = true
	if w.idle != nil {
		w.idle.Stop()
	}
	if k.watching != nil {
		k.watching.Stop()
		k.watching = nil
	}
}

// unsubscribeLocked ends a claim's subscription, also a planned one. A watch without claims ends after lingerFor.
func (ws *watches) unsubscribeLocked(k *localClaim) {
	if k.watching != nil {
		k.watching.Stop()
		k.watching = nil
	}
	w := k.by
	if w == nil {
		return
	}
	k.knows, k.by, k.early = informed, nil, nil
	if k.seen == 0 {
		k.knows = deaf
	}
	delete(w.claims, k)
	switch {
	case len(w.claims) > 0:
	case w.idle == nil:
		w.idle = time.AfterFunc(lingerFor, func() { ws.retire(w) })
	default:
		w.idle.Reset(lingerFor)
	}
}

// retire ends a watch that has no claims.
func (ws *watches) retire(w *queueWatch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(w.claims) == 0 && ws.open[w.watchKey] == w {
		delete(ws.open, w.watchKey)
		ws.ignoreLocked(w)
	}
}

// tell passes events to the claims of a watch. It alerts the client about claims that held and whose keys are deleted.
func (ws *watches) tell(w *queueWatch, events []*mvccpb.Event) {
	var gone []string
	ws.mu.Lock()
	for _, e := range events {
		news := event{key: string(e.Kv.Key), at: e.Kv.ModRevision}
		if e.Type != mvccpb.Event_DELETE {
			now := entryOf(e.Kv)
			if e.Kv.CreateRevision == e.Kv.ModRevision || now.foreign || now.Left {
				continue
			}
			news.weight = now.Weight
		}
		w.heard = news.at
		for k := range w.claims {
			if alarms := k.alarms(); k.hearLocked(news) && alarms {
				gone = append(gone, k.id)
			}
		}
	}
	tell := ws.endangered
	ws.mu.Unlock()
	if len(gone) > 0 {
		tell(gone...)
	}
}

// broken removes watches that etcd ended: their revision was compacted, their member lost the leader, or their user may not
// read any more. Waiting claims enter again, and the client is alerted to renew the others.
func (ws *watches) broken(watches ...*queueWatch) {
	var holding []string
	ws.mu.Lock()
	for _, w := range watches {
		holding = append(holding, ws.brokenLocked(w)...)
	}
	tell, closed := ws.endangered, ws.wire.ctx.Err() != nil
	ws.mu.Unlock()
	if len(holding) > 0 && !closed {
		tell(holding...)
	}
}

// brokenLocked removes one watch, and returns the ids of the claims to renew.
func (ws *watches) brokenLocked(w *queueWatch) (holding []string) {
	delete(w.on.watches, w.number)
	if ws.open[w.watchKey] == w {
		delete(ws.open, w.watchKey)
	}
	for k := range w.claims {
		ws.deafenLocked(k)
		if k.alarms() {
			holding = append(holding, k.id)
			ws.watchSoonLocked(k, watchAgain)
		} else {
			k.nudge()
		}
	}
	if w.idle != nil {
		w.idle.Stop()
	}
	return holding
}
