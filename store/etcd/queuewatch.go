package etcd

import (
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

const (
	// A claim that holds is watched over from this long on. Most sections are over before.
	watchAfter = 100 * time.Millisecond

	// How long the keys under a name are watched when no claim needs it any more.
	lingerFor = 2 * time.Second

	// How soon the keys under a name are watched again when etcd had ended that.
	watchAgain = time.Second
)

// watches are those of all names: they tell the claims' listeners what etcd tells. They know nothing of the table of claims.
type watches struct {
	wire *wire

	mu         *sync.Mutex // guards what follows, the listeners and the claims; the driver's, as for the claims
	open       map[watchKey]*queueWatch
	stream     *watchStream // that new watches begin on; nil if there is none
	endangered func(ids ...string)
}

func newWatches(mu *sync.Mutex, w *wire) *watches {
	return &watches{wire: w, mu: mu, open: map[watchKey]*queueWatch{}, endangered: func(...string) {}}
}

// A queueWatch hears of the keys that are deleted under one name, and for claims that want a part of it also of those that
// are written anew, by a claim that is amended. New keys do not matter: they queue behind all present ones.
type queueWatch struct {
	watchKey
	on     *watchStream
	number int64 // on the stream
	heard  int64 // up to this revision, every event was told already or came before the watch
	claims map[*localClaim]bool
	idle   *time.Timer // nil before it was first without claims
}

// A watchKey is what a watch is about: a name, for claims that want the whole of it or for others. Who wants the whole holds
// when nobody is ahead any more, so etcd sends it deletions alone. With that, a hand-over among 64 clients is 66 messages of the
// server, and without 129 (go run . -store=etcd -only='^passing$', in the folder bench).
type watchKey struct {
	name  string
	whole bool
}

// present notes that the key of a claim was there at a revision, from which on its deletion is to be heard.
func (ws *watches) present(k *localClaim, at int64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if k.by == nil && k.alarms() {
		k.knows, k.seen = informed, max(k.seen, at)
		ws.watchSoonLocked(k, watchAfter)
	}
}

// watchOver begins to hear of the deletion of a claim's key. If that may have gone unheard, a renewal tells.
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

// joinLocked has a claim hear of events from now on, and begins to listen if nobody does.
func (ws *watches) joinLocked(k *localClaim) *queueWatch {
	w := ws.open[k.watchKey()]
	if w == nil {
		// The watch begins after what this claim has seen. Another claim of the name may have seen less: heard tells.
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

// unsubscribeLocked has a claim hear of nothing any more.
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

// retire ends a watch that nobody needs.
func (ws *watches) retire(w *queueWatch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(w.claims) == 0 && ws.open[w.watchKey] == w {
		delete(ws.open, w.watchKey)
		ws.ignoreLocked(w)
	}
}

// tell hands events to the claims, and alerts the client to those that hold and are gone.
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
			if alarms := k.alarms(); k.hear(news) && alarms {
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

// broken ends watches that etcd ended: their revision was compacted, their member lost the leader, their user may no
// longer read. Claims that wait enter again, which tells the truth; those that hold are renewed.
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

// brokenLocked returns the claims that are to be renewed.
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
