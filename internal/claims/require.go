package claims

import (
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// The keeper checks the requirements on a store at each grant and renewal. A driver asks its servers again when it
// reconnects, as after a restart or a failover, so a store may lose traits:
//
//	        the client is opened
//	                 │
//	                 ▼  grants and renewals count
//	fit ◄───────────────────────────────────────────► unfit
//	      Traits has what is required, or lacks it
//
// While the store is unfit, no claim enters, a granted claim leaves, and a renewed claim is lost.

// lacks returns the reason why the store is unfit, or nil.
func (k *Keeper) lacks() error {
	if len(k.conf.Require) == 0 {
		return nil
	}
	return k.d.Traits().Require(k.conf.Require...)
}

// fences reports whether tickets are now fencing tokens, by the store's promise.
func (k *Keeper) fences() bool { return k.d.Traits().Fencing != driver.NoFencing }

// enter enters a claim, unless the store is unfit.
func (k *Keeper) enter(s *send) (driver.Place, error) {
	if lacks := k.lacks(); lacks != nil {
		return driver.Place{}, driver.Refused(lacks)
	}
	return k.d.Enter(s.call, s.asks)
}

// doubt makes a grant of an unfit store no answer: the next Enter of the claim fails, and it leaves.
func (k *Keeper) doubt(r *protocol.Reply) {
	if !r.OK() || !r.Place.Holds {
		return
	}
	if lacks := k.lacks(); lacks != nil {
		r.Outcome, r.Err, r.Place = protocol.Unknown, lacks, driver.Place{}
	}
}
