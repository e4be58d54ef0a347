package etcd

import "time"

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
func (d *Driver) expect(k *localClaim) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	// One that was only renewed here hears of its own key, and does not know which of the others are ahead.
	if k.knows == hearing && k.placed() {
		return true
	}
	if w := d.watches[k.watchKey()]; w != nil && d.known[k.id] == k {
		d.subscribeLocked(k, w)
		k.knows, k.early = gathering, nil
	}
	return false
}

// countAhead is how many claims stand ahead by what was heard and by what was read just now: the head of the queue. What
// stood before that is gone, although the deletion may not have been told yet.
func (d *Driver) countAhead(k *localClaim, head queue) int {
	if len(head) == 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, b := range k.ahead {
		if b.created >= head[0].created {
			n++
		}
	}
	return max(n, 1)
}

// hear notes an event, and reports whether it was the deletion of the claim itself. It is guarded by Driver.mu.
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
