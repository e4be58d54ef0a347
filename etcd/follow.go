package etcd

import (
	"context"
	"time"

	"github.com/stilelock/stile/driver"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// A claim that holds is watched over from this long on. Most sections are over before.
	followAfter = 100 * time.Millisecond

	// How long the deletions under a name are followed when no claim needs it any more.
	lingerFor = 2 * time.Second

	// How soon the deletions under a name are followed again when etcd had ended that.
	followAgain = time.Second
)

// A follower hears of the keys that are deleted under one name. All followers of a client share one stream. Nothing else
// need be heard of: whoever comes, comes in behind the claims that are here.
type follower struct {
	name   string
	stop   context.CancelFunc
	heard  int64 // up to this revision, every deletion was told already or came before the watch
	claims map[*claim]bool
	idle   *time.Timer
}

// A follow is what a claim makes of the deletions: the queue ahead of it, as it was at one revision, less what was
// deleted since.
type follow struct {
	ear   ear
	by    *follower // that tells it of deletions; nil if nobody does
	early []deletion

	seen     int64             // the revision at which ahead was so
	ahead    map[string]before // by key
	over     int64             // by how much the weights exceed the capacity, the claim's own included
	turn     chan struct{}     // has room for one: something has changed
	watching *time.Timer       // begins to follow when it has held for a while
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
func (d *Driver) expect(k *claim) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k.ear == hearing && k.placed() {
		return true
	}
	if f := d.followers[k.name]; f != nil && d.known[k.id] == k {
		d.followLocked(k, f)
		k.ear, k.early = gathering, nil
	}
	return false
}

// settle notes where a claim stands: at i in a queue, as it was at a revision.
func (d *Driver) settle(c *driver.Claim, k *claim, q queue, i int, seen int64, holds bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known[k.id] != k {
		return
	}
	knew := k.placed()
	if holds {
		k.become(claimHolding)
	} else {
		k.become(claimWaiting)
	}
	switch {
	case k.ear == hearing && knew:
		return // it has heard more than this answer tells
	case k.ear == hearing:
		d.unfollowLocked(k) // it has heard of keys of which it did not know that they were ahead
	}
	k.seen = seen
	k.ahead, k.over = make(map[string]before, i), c.Weight-c.Capacity
	for j, w := range q.weights(c.Capacity)[:i] {
		k.ahead[q[j].key] = before{w, q[j].created}
		k.over += w
	}
	if k.ear == gathering {
		k.ear = hearing
		for _, e := range k.early {
			k.hear(e)
		}
		k.early = nil
	} else {
		k.ear = informed
	}
	if holds {
		d.watchSoonLocked(k, followAfter)
	}
}

// countAhead is how many claims stand ahead by what was heard and by what was read just now: the head of the queue. What
// stood before that is gone, although the deletion may not have been told yet.
func (d *Driver) countAhead(k *claim, head queue) int {
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

// present notes that the key of a claim was there at a revision, from which on its deletion is to be heard.
func (d *Driver) present(k *claim, at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k.by == nil && k.alarms() {
		k.ear, k.seen = informed, max(k.seen, at)
		d.watchSoonLocked(k, followAfter)
	}
}

// watchSoonLocked has a claim that holds hear of it when its key is deleted.
func (d *Driver) watchSoonLocked(k *claim, after time.Duration) {
	if k.by != nil || k.watching != nil {
		return
	}
	k.watching = time.AfterFunc(after, func() {
		d.mu.Lock()
		k.watching = nil
		missed := false
		if d.known[k.id] == k && k.by == nil && d.ctx.Err() == nil {
			// A renewal tells from which revision on there is something to hear.
			missed = k.ear == deaf || d.joinLocked(k).heard > k.seen
		}
		tell := d.endangered
		d.mu.Unlock()
		if missed {
			tell(k.id)
		}
	})
}

// joinLocked has a claim hear of deletions from now on, and begins to listen if nobody does.
func (d *Driver) joinLocked(k *claim) *follower {
	f := d.followers[k.name]
	if f == nil {
		// The watch begins after what this claim has seen. Another claim of the name may have seen less: heard tells.
		f = &follower{name: k.name, claims: map[*claim]bool{}, heard: k.seen}
		ctx, stop := context.WithCancel(d.ctx)
		f.stop = stop
		f.idle = time.AfterFunc(time.Hour, func() { d.retire(f) })
		f.idle.Stop()
		from := k.seen + 1
		if !d.spawnLocked(func() { d.listen(ctx, f, from) }) {
			stop()
		}
		d.followers[k.name] = f
	}
	d.followLocked(k, f)
	return f
}

func (d *Driver) followLocked(k *claim, f *follower) {
	k.ear, k.by = hearing, f
	f.claims[k] = true
	f.idle.Stop()
	if k.watching != nil {
		k.watching.Stop()
		k.watching = nil
	}
}

// unfollowLocked has a claim hear of nothing any more.
func (d *Driver) unfollowLocked(k *claim) {
	if k.watching != nil {
		k.watching.Stop()
		k.watching = nil
	}
	f := k.by
	if f == nil {
		return
	}
	k.ear, k.by, k.early = informed, nil, nil
	if k.seen == 0 {
		k.ear = deaf
	}
	delete(f.claims, k)
	if len(f.claims) == 0 {
		f.idle.Reset(lingerFor)
	}
}

// retire ends a follower that nobody needs.
func (d *Driver) retire(f *follower) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(f.claims) == 0 && d.followers[f.name] == f {
		delete(d.followers, f.name)
		f.stop()
	}
}

// listen hands deletions out until ctx ends or etcd ends the watch.
func (d *Driver) listen(ctx context.Context, f *follower, from int64) {
	defer f.stop()
	// A member that has lost its leader ends the watch instead of letting it hang.
	watch := d.client.Watch(clientv3.WithRequireLeader(ctx), d.folder(f.name),
		clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithFilterPut())
	for r := range watch {
		if r.Err() != nil {
			break
		}
		d.tell(f, r.Events)
	}
	d.deafen(f)
}

// tell hands deletions to the claims, and alerts the client to those that hold and are gone.
func (d *Driver) tell(f *follower, events []*clientv3.Event) {
	var gone []string
	d.mu.Lock()
	for _, e := range events {
		f.heard = e.Kv.ModRevision
		for k := range f.claims {
			if alarms := k.alarms(); k.hear(deletion{string(e.Kv.Key), e.Kv.ModRevision}) && alarms {
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

// hear notes a deletion, and reports whether it was of the claim itself. It is guarded by Driver.mu.
func (k *claim) hear(e deletion) (gone bool) {
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

func (k *claim) nudge() {
	select {
	case k.turn <- struct{}{}:
	default:
	}
}

// deafen ends a follower whose watch etcd ended: its revision was compacted, its member lost the leader, its user may no
// longer read. Claims that wait enter again, which tells the truth; those that hold are renewed.
func (d *Driver) deafen(f *follower) {
	var holding []string
	d.mu.Lock()
	if d.followers[f.name] == f {
		delete(d.followers, f.name)
	}
	for k := range f.claims {
		d.unfollowLocked(k)
		k.ear, k.seen = deaf, 0
		if k.alarms() {
			holding = append(holding, k.id)
			d.watchSoonLocked(k, followAgain)
		} else {
			k.nudge()
		}
	}
	f.idle.Stop()
	tell, closed := d.endangered, d.ctx.Err() != nil
	d.mu.Unlock()
	if len(holding) > 0 && !closed {
		tell(holding...)
	}
}
