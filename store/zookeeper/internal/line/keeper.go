// Package line keeps single locks in ZooKeeper, each on a path of its own: the claims under a path are one queue.
//
// A [Keeper] has the table of this client's claims. A claim of its own, a [LocalClaim], has five parts: who it is, which never
// changes; what is known of its node, which is pure; its lease, to which the time is passed in; what it hears; and its requests
// that are under way. Enter finds a claim that has entered before, or makes its node, and then judges by the list of children
// where it stands. A node that is to go is a goal, in goal.go: leaves decides, and pursue sends. What needs no claim of this client
// is in a [Folder]. The janitor does what no call does.
//
// A claim is in one state, which one function moves, become:
//
//	         its place    ┌─────────┐
//	        ┌────────────►│ waiting │──┐
//	   ┌────┴───┐         └────┬────┘  │
//	──►│ asking │              │       │  its lease runs out, or it
//	   └────┬───┘         ┌────▼────┐  │  was not let in   ┌────────┐
//	        └────────────►│ holding │──┼──────────────────►│ ending │──┐
//	                      └─────────┘  │                   └────────┘  │ its node
//	                                   │  Leave            ┌─────────┐ │ is removed
//	                                   ├──────────────────►│ leaving │─┤
//	                                   │                   └─────────┘ │
//	                                   │  Leave with Keep, here or by  │
//	                                   │  another client, which may    │
//	                                   │  find it ending or leaving    │
//	                                   │  ┌──────┐ time over ┌───────┐ │
//	                                   ├─►│ kept │──────────►│ spent │─┤
//	                                   │  └──────┘           └───────┘ │
//	                                   │ its node is gone by a quorum's│
//	                                   │ word, or its session is over  ▼
//	                                   └───────────────────────────►  over
//
// If no claim here knows a node of the session, the keeper takes the node up as a claim that is ending; stray.go says when.
//
// From every state it goes to over with its session. Whether the request for its node was answered is another question,
// which settle asks: until then the node may come, also of a claim that must go.
package line

import (
	"errors"
	"sync"

	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A Keeper keeps single locks, each on a path of its own, and knows of no others: the claims under a path are one queue. It is
// the only one that asks for the nodes of this client's claims, or has them removed.
//
// The recipe that is built on it sets LayoutOf, and may set Forgets, before the first claim enters.
type Keeper struct {
	zk       *ensemble.Ensemble
	janitor  *janitor
	LayoutOf func(dir string) znode.Layout // how the children of a path are named
	Forgets  func(id string)               // is told of each claim that leaves the table, by one who holds mu; nil means nobody

	mu          sync.Mutex             // guards what follows, what is in the local claims, and the janitor
	localClaims map[string]*LocalClaim // by claim id
}

// New returns a keeper without claims.
func New(zk *ensemble.Ensemble) *Keeper {
	k := &Keeper{zk: zk, localClaims: map[string]*LocalClaim{}}
	k.janitor = &janitor{
		zk: zk, line: k, alerts: map[string]bool{}, kick: make(chan struct{}, 1), next: Never, compareAt: Never,
	}
	zk.Conf.Busy, zk.Conf.Hurt = k.busy, k.janitor.hurt
	return k
}

// busy reports whether there are claims.
func (k *Keeper) busy() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.localClaims) > 0
}

// errUnproven says that a server which may be behind does not show a claim's node.
var errUnproven = errors.New("the claim's node was not seen")

// Mutex returns the mutex that guards the claims. A recipe whose own state changes together with claims shares it.
func (k *Keeper) Mutex() *sync.Mutex { return &k.mu }

// Begins begins to see to the claims, until the ensemble's life ends.
func (k *Keeper) Begins() { k.zk.Life.Go(k.janitor.tend) }

// Remembered returns how many claims there are, and how many of them are to be reported.
func (k *Keeper) Remembered() (claims, alerts int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.localClaims), len(k.janitor.alerts)
}

// End ends the life, after which no claim begins, and reports whether some stand.
func (k *Keeper) End() (standing bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.zk.Life.End()
	for _, lc := range k.localClaims {
		standing = standing || lc.lease.stands() || lc.lease.state == claimKept
	}
	return standing
}
