package etcd

import (
	"slices"

	"github.com/stilelock/stile/driver"
)

// A state is where a claim is on its way; the package comment has the drawing.
type state int

const (
	claimAsking  state = iota // its key is asked for; whether that is in etcd is not known
	claimFound                // its key is in etcd; whether it holds is not known here
	claimWaiting              // it waits, as it was last seen
	claimHolding              // it holds, and goes on to hold until its key goes
	claimDeleted              // its key was seen to go; etcd is asked before anybody is told so
	claimLeaving              // its client wants it gone, and does not know yet that it is
	claimKept                 // it has left, and its key stays until its time is over
	claimGone                 // its key is not in etcd any more
	claimLost                 // the lease that it lived by is no more
)

// moves are the ways that a claim can go.
var moves = map[state][]state{
	claimAsking:  {claimFound, claimKept, claimGone, claimLost},
	claimFound:   {claimWaiting, claimHolding, claimDeleted, claimLeaving, claimKept, claimGone, claimLost},
	claimWaiting: {claimHolding, claimDeleted, claimLeaving, claimKept, claimGone, claimLost},
	claimHolding: {claimDeleted, claimLeaving, claimKept, claimGone, claimLost},
	claimDeleted: {claimLeaving, claimKept, claimGone, claimLost},
	claimLeaving: {claimKept, claimGone, claimLost},
}

// become moves the claim, and reports whether it moved. A way that is not drawn is not gone: an answer that comes late, such
// as that a claim waits which has come to hold since, changes nothing. The caller holds mu.
func (k *localClaim) become(next state) bool {
	if !slices.Contains(moves[k.state], next) {
		return false
	}
	k.state = next
	return true
}

// ended reports that nothing follows.
func (k *localClaim) ended() bool { return k.state >= claimKept }

// entered reports whether the key of the claim is known to have been in etcd, and was not found to be gone.
func (k *localClaim) entered() bool { return claimFound <= k.state && k.state <= claimLeaving }

// placed reports whether an answer of etcd has told where the claim stands.
func (k *localClaim) placed() bool {
	return k.state == claimWaiting || k.state == claimHolding || k.state == claimDeleted
}

// alarms reports whether the claim's client wants to hear at once that its key is gone. One that waits finds out by itself.
func (k *localClaim) alarms() bool { return k.state == claimFound || k.state == claimHolding }

// A localClaim is what the driver remembers of a claim that entered by it, or that it renews. Any other driver can find out
// the same from the key.
type localClaim struct {
	id, name string
	key      string
	home     *lease // that the key is named for
	whole    bool   // it takes all of the capacity

	// Guarded by the mu of the table, as is the listener:
	known             bool   // it is in the table of claims
	state             state  // moved by become
	life              *lease // that the claim lives by: home, until there is a new leader
	on                *lease // that the key hangs on: life, or a longer one while it holds with a lock-delay
	created, modified int64  // revisions of the key, once it was found
	listener
}

func newLocalClaim(c *driver.Claim, key string, home *lease) *localClaim {
	k := &localClaim{id: c.ID, name: c.Name, key: key, home: home, life: home, on: home, whole: c.Weight == c.Capacity}
	k.turn = make(chan struct{}, 1)
	return k
}

func (k *localClaim) watchKey() watchKey { return watchKey{k.name, k.whole} }

// leasesLocked returns all leases of a claim, each once.
func (k *localClaim) leasesLocked() []*lease {
	all := []*lease{k.home}
	for _, l := range []*lease{k.life, k.on} {
		if !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all
}

// leaseLocked returns the lease of a claim with this id, or another driver's, of the term that the claim's key tells.
func (k *localClaim) leaseLocked(id int64, term uint64) *lease {
	for _, l := range k.leasesLocked() {
		if l.id == id {
			return l
		}
	}
	return foreignLease(id, term)
}

// claimAt is a claim whose key another driver put.
func claimAt(c *driver.Claim, e *entry, p *pool) *localClaim {
	id, _ := e.home()
	return newLocalClaim(c, e.key, foreignLease(id, p.term(id, e.Term)))
}
