// Package line keeps single locks in ZooKeeper, each on a path of its own: the claims under a path are one queue.
//
// A [Keeper] has the table of this client's claims. An entry, a [LocalClaim], has five parts: its identity, which never
// changes; what the client knows of its node; its lease; its watches; and its requests under way. The node and the lease are
// pure: callers pass in the answers and the time. Tests walk through all that can happen to them, and to a node that a call
// changes: TestStates, TestNodes and TestGoals.
//
// [Keeper.Enter] finds a claim that has entered before, or makes its node, and then judges by the list of children whether
// the claim holds. Every later change of the node has a goal: in goal.go a pure function decides the next request, and in
// pursue.go one loop sends it. A [Folder] works without the table of claims. The janitor does the work that no call does.
//
// A claim is in one state, and only the function become moves it:
//
//	         its place    ┌─────────┐
//	        ┌────────────►│ waiting │──┐
//	   ┌────┴───┐         └─▲──┬────┘  │
//	──►│ asking │───────────┼──┼───────┤  its lease runs out, or it
//	   └────┬───┘         ┌─┴──▼────┐  │  was not let in   ┌────────┐
//	        └────────────►│ holding │──┼──────────────────►│ ending │──┐
//	                      └─────────┘  │                   └───┬────┘  │ its node
//	                                   │  Leave            ┌───▼─────┐ │ is removed
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
// A claim that holds waits again if a later list has a node ahead of it that was not there before; no client of stile
// makes such a node.
//
// If no local claim knows a node of the session, the janitor makes a local claim of it, which is ending; see stray.go.
//
// When its session ends, a claim goes from any state to over. The state does not show whether the request for the node has
// an answer: settle finds that out. Until then the node may still appear, even if the claim must go.
package line

import (
	"errors"
	"sync"

	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// A Keeper keeps single locks, each on a path of its own: the claims under a path are one queue. Only the keeper makes nodes
// for this client's claims.
//
// A recipe sets LayoutOf, and may set Forgets, before the first claim enters.
type Keeper struct {
	zk       *ensemble.Ensemble
	janitor  *janitor
	LayoutOf func(dir string) znode.Layout // how the children of a path are named
	Forgets  func(id string)               // called under mu for each claim that leaves the table; may be nil

	mu          sync.Mutex             // guards the table, the local claims in it, and the janitor
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

// errUnproven says that a server does not show a claim's node, but may be behind.
var errUnproven = errors.New("the claim's node was not seen")

// Mutex returns the mutex that guards the claims. A recipe whose own state changes together with claims shares it.
func (k *Keeper) Mutex() *sync.Mutex { return &k.mu }

// Begins starts the janitor, which ends with the ensemble's life.
func (k *Keeper) Begins() { k.zk.Life.Go(k.janitor.tend) }

// Remembered returns how many claims are in the table, and how many alerts about claims wait to be sent.
func (k *Keeper) Remembered() (claims, alerts int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.localClaims), len(k.janitor.alerts)
}

// End ends the ensemble's life, after which no claim begins. It reports whether any claim stands or is kept.
func (k *Keeper) End() (standing bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.zk.Life.End()
	for _, lc := range k.localClaims {
		standing = standing || lc.lease.stands() || lc.lease.state == claimKept
	}
	return standing
}
