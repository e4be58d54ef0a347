package etcd

import (
	"slices"

	"github.com/stilelock/stile/driver"
)

// A state is a claim's, as far as the driver knows; the package comment has the drawing.
type state int

const (
	claimAsking  state = iota // not known to be in etcd: a put may be under way, or its answer was lost
	claimFound                // its key is in etcd; it is not known whether it holds
	claimWaiting              // it waited when its queue was last read
	claimHolding              // it holds, and goes on to hold until its key goes
	claimDeleted              // a watch reported its deletion; its client learns of it once etcd has confirmed it
	claimLeaving              // its client called Leave, and etcd has not confirmed it yet
	claimKept                 // it has left, and its key stays until its last lease ends
	claimGone                 // its key is not in etcd any more
	claimLost                 // its lease has ended
)

// moves are the transitions of a claim.
var moves = map[state][]state{
	claimAsking:  {claimFound, claimKept, claimGone, claimLost},
	claimFound:   {claimWaiting, claimHolding, claimDeleted, claimLeaving, claimKept, claimGone, claimLost},
	claimWaiting: {claimHolding, claimDeleted, claimLeaving, claimKept, claimGone, claimLost},
	claimHolding: {claimDeleted, claimLeaving, claimKept, claimGone, claimLost},
	claimDeleted: {claimLeaving, claimKept, claimGone, claimLost},
	claimLeaving: {claimKept, claimGone, claimLost},
}

// becomeLocked moves the claim to a state, and reports whether it did. It makes no other transition than the moves. So a
// late answer changes nothing, such as the answer that a claim waits which has begun to hold since.
func (k *localClaim) becomeLocked(next state) bool {
	if !slices.Contains(moves[k.state], next) {
		return false
	}
	k.state = next
	return true
}

// ended reports whether the state is final.
func (k *localClaim) ended() bool { return k.state >= claimKept }

// entered reports whether the claim's key was seen in etcd, and not found gone since.
func (k *localClaim) entered() bool { return claimFound <= k.state && k.state <= claimLeaving }

// placed reports whether the claim's place was known from an answer of etcd.
func (k *localClaim) placed() bool {
	return k.state == claimWaiting || k.state == claimHolding || k.state == claimDeleted
}

// alarms reports whether the claim's client must be alerted when the key is deleted. A claim that waits finds out in Enter.
func (k *localClaim) alarms() bool { return k.state == claimFound || k.state == claimHolding }

// A localClaim is the driver's memory of a claim that entered by it, or that it renews or has adopted. Any other driver can read the same
// from the key.
//
// A claim has three leases, mostly all one. The claim's lease is the one that it lives by. The key's lease is the one to
// which the key is attached. The third has its id in the key's name, which never changes.
type localClaim struct {
	id, name string
	key      string
	home     *lease // the lease in the key's name
	whole    bool   // it takes the whole capacity

	// Guarded by the table's mu, as is the listener:
	known             bool   // it is in the table of claims
	state             state  // changed by becomeLocked only
	life              *lease // the claim's lease: home, until a new leader makes it change
	on                *lease // the key's lease: life, or a longer one while the claim holds with a lock-delay
	created, modified int64  // revisions of the key; 0 before it was found
	listener
}

func newLocalClaim(c *driver.Claim, key string, home *lease) *localClaim {
	k := &localClaim{id: c.ID, name: c.Name, key: key, home: home, life: home, on: home, whole: c.Weight == c.Capacity}
	k.turn = make(chan struct{}, 1)
	return k
}

func (k *localClaim) watchKey() watchKey { return watchKey{k.name, k.whole} }

// leasesLocked returns a claim's leases, each once.
func (k *localClaim) leasesLocked() []*lease {
	all := []*lease{k.home}
	for _, l := range []*lease{k.life, k.on} {
		if !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all
}

// leaseLocked returns the claim's lease with this id. If it has none, another driver granted the lease, in the term that the
// key names.
func (k *localClaim) leaseLocked(id int64, term uint64) *lease {
	for _, l := range k.leasesLocked() {
		if l.id == id {
			return l
		}
	}
	return foreignLease(id, term)
}

// claimAt returns a local claim for a key that another driver put.
func claimAt(c *driver.Claim, e *entry, p *pool) *localClaim {
	id, _ := e.home()
	return newLocalClaim(c, e.key, foreignLease(id, p.term(id, e.Term)))
}
