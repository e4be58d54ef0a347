package etcd

import (
	"time"

	"github.com/stilelock/stile/driver"
)

// A listener keeps the queue ahead of one claim up to date: as it was at one revision, without the keys that were deleted
// since, and with the weights that became smaller.
type listener struct {
	knows knowledge
	by    *queueWatch // sends the events; nil without a subscription
	early []event     // events that came while gathering

	seen     int64             // the revision at which ahead was read
	ahead    map[string]before // by key
	over     int64             // by how much the weights, the claim's own included, exceed the capacity
	turn     chan struct{}     // has room for one: something has changed
	watching *time.Timer       // subscribes the claim once it has held for a while
}

// A knowledge says how much of the queue ahead a claim knows.
//
//	     Enter read the queue,                Await, or it has
//	      or Renew the key     ┌──────────┐   held for a while   ┌─────────┐
//	   ┌──────────────────────►│ informed ├─────────────────────►│ hearing │
//	┌──┴───┐                   │          │◄─────────────────────┤         │
//	│ deaf │                   └────┬─────┘   it unsubscribes    └─────────┘
//	└──┬───┘                        │                                 ▲
//	   │    Enter begins, and the   ▼                                 │
//	   │    name has a watch   ┌───────────┐   Enter read the queue   │
//	   └──────────────────────►│ gathering ├──────────────────────────┘
//	                           └───────────┘
//
// Enter also leads from hearing to gathering, if the claim was only renewed here. Without its subscription, a claim that
// gathers is informed, or deaf if it never read the queue. Each becomes deaf when its watch breaks, or when Enter has read only
// the head of the queue and the events of the rest are missing.
type knowledge int

const (
	deaf      knowledge = iota // nothing, or events may be missing: only Enter or Renew finds out
	informed                   // the queue at one revision, without a subscription
	gathering                  // nothing yet: a read is under way, and events gather in early
	hearing                    // the present queue: it has a subscription
)

// A before is a claim ahead of another one.
type before struct{ weight, created int64 }

// An event is a change of one key at a revision: it was deleted, or its claim has another weight.
type event struct {
	key    string
	at     int64
	weight int64 // 0 if the key was deleted
}

// expect subscribes a claim before its queue is read, if its name has a watch, so that no event is lost in between. It
// reports whether the claim already knows the present queue ahead of it.
func (ws *watches) expect(k *localClaim) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	// A claim that was only renewed here hears of its own key, and does not know which other keys are ahead.
	if k.knows == hearing && k.placed() {
		return true
	}
	if w := ws.open[k.watchKey()]; w != nil && k.known {
		ws.subscribeLocked(k, w)
		k.knows, k.early = gathering, nil
	}
	return false
}

// countAhead returns the number of claims ahead, by the events so far and by the head of the queue, which was read just now.
// Claims before this head are gone, although the watch may not have reported their deletion yet.
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

// hearLocked notes an event, and reports whether it was the deletion of the claim itself.
func (k *localClaim) hearLocked(e event) (gone bool) {
	if k.knows == gathering {
		k.early = append(k.early, e)
		return false
	}
	if e.at <= k.seen {
		return false // the queue ahead was read at this revision or later
	}
	switch other, ahead := k.ahead[e.key]; {
	case e.key == k.key && e.weight == 0:
		k.becomeLocked(claimDeleted)
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

// noteQueue notes the place of a claim: index i of a queue that was read at the revision seen. whole says that the queue has
// all keys ahead of the claim; else it has only their head, which says nothing about the others.
func (ws *watches) noteQueue(c *driver.Claim, k *localClaim, q queue, i int, whole bool, seen int64, holds bool) {
	ws.mu.Lock()
	gone, tell := false, ws.endangered
	if k.known {
		knew := k.placed()
		if holds {
			k.becomeLocked(claimHolding)
		} else {
			k.becomeLocked(claimWaiting)
		}
		switch {
		case k.knows == hearing && knew: // the watch keeps it up to date, and this answer adds nothing
		case whole:
			gone = ws.readAheadLocked(c, k, q[:i], q[:i].Weights(c.Capacity), seen)
		default: // its subscription ended while the head was read
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

// readAheadLocked notes the queue ahead of a claim, read at the revision seen. It reports whether the claim's client must be
// alerted, since the key was deleted after the read.
func (ws *watches) readAheadLocked(c *driver.Claim, k *localClaim, ahead queue, weights []int64, seen int64) (gone bool) {
	if k.knows == hearing {
		ws.unsubscribeLocked(k) // it may have dropped events of keys that it did not know to be ahead
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
	// An event that came while the read was under way may be older or newer than the answer: hearLocked compares the revisions.
	early := k.early
	k.knows, k.early = hearing, nil
	for _, e := range early {
		alarms := k.alarms()
		gone = k.hearLocked(e) && alarms || gone
	}
	return gone
}

// deafenLocked makes a claim forget the queue ahead, so that its next Enter reads all of it.
func (ws *watches) deafenLocked(k *localClaim) {
	ws.unsubscribeLocked(k)
	k.knows, k.seen = deaf, 0
}

// watchSoonLocked subscribes a claim that holds, after a time, so that it hears of the deletion of its own key.
func (ws *watches) watchSoonLocked(k *localClaim, after time.Duration) {
	if k.by == nil && k.watching == nil {
		k.watching = time.AfterFunc(after, func() { ws.watchOver(k) })
	}
}
