package etcd

import (
	"time"

	"github.com/stilelock/stile/driver"
)

// A listener is what a claim makes of the events: the queue ahead of it, as it was at one revision, less what was
// deleted or given up since.
type listener struct {
	knows knowledge
	by    *queueWatch // that tells it of events; nil if nobody does
	early []event

	seen     int64             // the revision at which ahead was so
	ahead    map[string]before // by key
	over     int64             // by how much the weights exceed the capacity, the claim's own included
	turn     chan struct{}     // has room for one: something has changed
	watching *time.Timer       // begins to hear when it has held for a while
}

// A knowledge is what a claim knows of the queue ahead of it.
type knowledge int

const (
	deaf      knowledge = iota // nothing, or what was heard last is not known: to enter or to be renewed begins anew
	informed                   // how it was at one revision; nobody tells it more
	gathering                  // a request is on its way that will tell; until then events gather in early
	hearing                    // how it is
)

// A before is a claim that stands ahead of another.
type before struct{ weight, created int64 }

// An event is of one key, at a revision: it was deleted, or its claim has another weight.
type event struct {
	key    string
	at     int64
	weight int64 // 0 if the key was deleted
}

// expect prepares a claim for hearing of events while a request is on its way. It reports whether the claim knows
// what is ahead of it already.
func (ws *watches) expect(k *localClaim) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	// One that was only renewed here hears of its own key, and does not know which of the others are ahead.
	if k.knows == hearing && k.placed() {
		return true
	}
	if w := ws.open[k.watchKey()]; w != nil && k.known {
		ws.subscribeLocked(k, w)
		k.knows, k.early = gathering, nil
	}
	return false
}

// countAhead is how many claims stand ahead by what was heard and by what was read just now: the head of the queue. What
// stood before that is gone, although the deletion may not have been told yet.
func (ws *watches) countAhead(k *localClaim, head queue) int {
	if len(head) == 0 {
		return 0
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	n := 0
	for _, b := range k.ahead {
		if b.created >= head[0].created {
			n++
		}
	}
	return max(n, 1)
}

// hear notes an event, and reports whether it was the deletion of the claim itself. The caller holds mu.
func (k *localClaim) hear(e event) (gone bool) {
	if k.knows == gathering {
		k.early = append(k.early, e)
		return false
	}
	if e.at <= k.seen {
		return false // the queue ahead was read after that
	}
	switch other, ahead := k.ahead[e.key]; {
	case e.key == k.key && e.weight == 0:
		k.become(claimDeleted)
		gone = true
	case ahead && e.weight < other.weight:
		k.over -= other.weight - e.weight
		if other.weight = e.weight; e.weight == 0 {
			delete(k.ahead, e.key)
		} else {
			k.ahead[e.key] = other
		}
		if k.over > 0 {
			return false
		}
	default:
		return false
	}
	k.nudge()
	return gone
}

func (k *localClaim) nudge() {
	select {
	case k.turn <- struct{}{}:
	default:
	}
}

// noteQueue notes where a claim stands: at i in a queue, as it was at a revision. Unless that is the whole of what stands ahead, it
// is the head of that, which says nothing of the others.
func (ws *watches) noteQueue(c *driver.Claim, k *localClaim, q queue, i int, whole bool, seen int64, holds bool) {
	ws.mu.Lock()
	gone, tell := false, ws.endangered
	if k.known {
		knew := k.placed()
		if holds {
			k.become(claimHolding)
		} else {
			k.become(claimWaiting)
		}
		switch {
		case k.knows == hearing && knew: // it has heard more than this answer tells
		case whole:
			gone = ws.readAheadLocked(c, k, q[:i], q[:i].Weights(c.Capacity), seen)
		default: // what it had heard was lost while the head was read
			ws.deafenLocked(k)
			k.nudge()
		}
		if holds {
			ws.watchSoonLocked(k, watchAfter)
		}
	}
	ws.mu.Unlock()
	if gone {
		tell(k.id)
	}
}

// readAheadLocked notes what is ahead of a claim by an answer. It reports whether its client is to be told that its key has
// gone since.
func (ws *watches) readAheadLocked(c *driver.Claim, k *localClaim, ahead queue, weights []int64, seen int64) (gone bool) {
	if k.knows == hearing {
		ws.unsubscribeLocked(k) // it has heard of keys of which it did not know that they were ahead
	}
	k.seen = seen
	k.ahead, k.over = make(map[string]before, len(ahead)), c.Weight-c.Capacity
	for i, w := range weights {
		k.ahead[ahead[i].key] = before{w, ahead[i].created}
		k.over += w
	}
	if k.knows != gathering {
		k.knows = informed
		return false
	}
	// What was told while the answer was on its way may be older than the answer, or newer: hear knows by the revision.
	early := k.early
	k.knows, k.early = hearing, nil
	for _, e := range early {
		alarms := k.alarms()
		gone = k.hear(e) && alarms || gone
	}
	return gone
}

// deafenLocked has a claim know nothing of what is ahead, so that the next Enter reads all of that.
func (ws *watches) deafenLocked(k *localClaim) {
	ws.unsubscribeLocked(k)
	k.knows, k.seen = deaf, 0
}

// watchSoonLocked has a claim that holds hear of it when its key is deleted.
func (ws *watches) watchSoonLocked(k *localClaim, after time.Duration) {
	if k.by == nil && k.watching == nil {
		k.watching = time.AfterFunc(after, func() { ws.watchOver(k) })
	}
}
