package etcd

import "time"

// A queueAhead is what a claim makes of the deletions: the queue ahead of it, as it was at one revision, less what was
// deleted since.
type queueAhead struct {
	ear   ear
	by    *deleteWatch // that tells it of deletions; nil if nobody does
	early []deletion

	seen     int64             // the revision at which ahead was so
	ahead    map[string]before // by key
	over     int64             // by how much the weights exceed the capacity, the claim's own included
	turn     chan struct{}     // has room for one: something has changed
	watching *time.Timer       // begins to hear when it has held for a while
}

// An ear is what a claim knows of the queue ahead of it.
type ear int

const (
	deaf      ear = iota // nothing, or what was heard last is not known: to enter or to be renewed begins anew
	informed             // how it was at one revision; nobody tells it more
	gathering            // a request is on its way that will tell; until then deletions gather in early
	hearing              // how it is
)

// A before is a claim that stands ahead of another.
type before struct{ weight, created int64 }

// A deletion is of one key, at a revision.
type deletion struct {
	key string
	at  int64
}

// expect prepares a claim for hearing of deletions while a request is on its way. It reports whether the claim knows
// what is ahead of it already.
func (d *Driver) expect(k *localClaim) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	// One that was only renewed here hears of its own key, and does not know which of the others are ahead.
	if k.ear == hearing && k.placed() {
		return true
	}
	if w := d.watches[k.name]; w != nil && d.known[k.id] == k {
		d.subscribeLocked(k, w)
		k.ear, k.early = gathering, nil
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

// hear notes a deletion, and reports whether it was of the claim itself. It is guarded by Driver.mu.
func (k *localClaim) hear(e deletion) (gone bool) {
	if k.ear == gathering {
		k.early = append(k.early, e)
		return false
	}
	if e.at <= k.seen {
		return false // the queue ahead was read after that
	}
	switch other, ahead := k.ahead[e.key]; {
	case e.key == k.key:
		k.become(claimDeleted)
		gone = true
	case ahead:
		delete(k.ahead, e.key)
		k.over -= other.weight
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
