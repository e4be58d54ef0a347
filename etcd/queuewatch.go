package etcd

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// A claim that holds is watched over from this long on. Most sections are over before.
	watchAfter = 100 * time.Millisecond

	// How long the keys under a name are watched when no claim needs it any more.
	lingerFor = 2 * time.Second

	// How soon the keys under a name are watched again when etcd had ended that.
	watchAgain = time.Second
)

// A queueWatch hears of the keys that are deleted under one name, or written anew by a claim that is amended. All of a
// client share one stream. New keys do not matter: they queue behind all present ones.
type queueWatch struct {
	name   string
	stop   context.CancelFunc
	heard  int64 // up to this revision, every event was told already or came before the watch
	claims map[*localClaim]bool
	idle   *time.Timer
}

// present notes that the key of a claim was there at a revision, from which on its deletion is to be heard.
func (d *Driver) present(k *localClaim, at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k.by == nil && k.alarms() {
		k.ear, k.seen = informed, max(k.seen, at)
		d.watchSoonLocked(k, watchAfter)
	}
}

// watchOver begins to hear of the deletion of a claim's key. If that may have gone unheard, a renewal tells.
func (d *Driver) watchOver(k *localClaim) {
	d.mu.Lock()
	k.watching = nil
	missed := false
	if d.known[k.id] == k && k.by == nil && d.ctx.Err() == nil {
		missed = k.ear == deaf || d.joinLocked(k).heard > k.seen
	}
	tell := d.endangered
	d.mu.Unlock()
	if missed {
		tell(k.id)
	}
}

// joinLocked has a claim hear of events from now on, and begins to listen if nobody does.
func (d *Driver) joinLocked(k *localClaim) *queueWatch {
	w := d.watches[k.name]
	if w == nil {
		// The watch begins after what this claim has seen. Another claim of the name may have seen less: heard tells.
		w = &queueWatch{name: k.name, claims: map[*localClaim]bool{}, heard: k.seen}
		ctx, stop := context.WithCancel(d.ctx)
		w.stop = stop
		w.idle = time.AfterFunc(time.Hour, func() { d.retire(w) })
		w.idle.Stop()
		from := k.seen + 1
		if !d.life.Go(func() { d.listen(ctx, w, from) }) {
			stop()
		}
		d.watches[k.name] = w
	}
	d.subscribeLocked(k, w)
	return w
}

func (d *Driver) subscribeLocked(k *localClaim, w *queueWatch) {
	k.ear, k.by = hearing, w
	w.claims[k] = true
	w.idle.Stop()
	if k.watching != nil {
		k.watching.Stop()
		k.watching = nil
	}
}

// unsubscribeLocked has a claim hear of nothing any more.
func (d *Driver) unsubscribeLocked(k *localClaim) {
	if k.watching != nil {
		k.watching.Stop()
		k.watching = nil
	}
	w := k.by
	if w == nil {
		return
	}
	k.ear, k.by, k.early = informed, nil, nil
	if k.seen == 0 {
		k.ear = deaf
	}
	delete(w.claims, k)
	if len(w.claims) == 0 {
		w.idle.Reset(lingerFor)
	}
}

// retire ends a watch that nobody needs.
func (d *Driver) retire(w *queueWatch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(w.claims) == 0 && d.watches[w.name] == w {
		delete(d.watches, w.name)
		w.stop()
	}
}

// listen hands events out until ctx ends or etcd ends the watch.
func (d *Driver) listen(ctx context.Context, w *queueWatch, from int64) {
	defer w.stop()
	// A member that has lost its leader ends the watch instead of letting it hang.
	events := d.client.Watch(clientv3.WithRequireLeader(ctx), d.folder(w.name),
		clientv3.WithPrefix(), clientv3.WithRev(from))
	for r := range events {
		if r.Err() != nil {
			break
		}
		d.tell(w, r.Events)
	}
	d.broken(w)
}

// tell hands events to the claims, and alerts the client to those that hold and are gone.
func (d *Driver) tell(w *queueWatch, events []*clientv3.Event) {
	var gone []string
	d.mu.Lock()
	for _, e := range events {
		news := event{key: string(e.Kv.Key), at: e.Kv.ModRevision}
		if e.Type != clientv3.EventTypeDelete {
			now := entryOf(e.Kv)
			if e.IsCreate() || now.foreign || now.Left {
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
	tell := d.endangered
	d.mu.Unlock()
	if len(gone) > 0 {
		tell(gone...)
	}
}

// broken ends a watch that etcd ended: its revision was compacted, its member lost the leader, its user may no
// longer read. Claims that wait enter again, which tells the truth; those that hold are renewed.
func (d *Driver) broken(w *queueWatch) {
	var holding []string
	d.mu.Lock()
	if d.watches[w.name] == w {
		delete(d.watches, w.name)
	}
	for k := range w.claims {
		d.unsubscribeLocked(k)
		k.ear, k.seen = deaf, 0
		if k.alarms() {
			holding = append(holding, k.id)
			d.watchSoonLocked(k, watchAgain)
		} else {
			k.nudge()
		}
	}
	w.idle.Stop()
	tell, closed := d.endangered, d.ctx.Err() != nil
	d.mu.Unlock()
	if len(holding) > 0 && !closed {
		tell(holding...)
	}
}
