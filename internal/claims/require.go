package claims

import (
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// The requirements on a store are checked whenever the store lets a claim hold. A driver asks its servers again when
// it reconnects, as after a restart or a failover, so the store may come to promise less:
//
//	        the client is opened
//	                 │
//	                 ▼  grants and renewals count
//	fit ◄───────────────────────────────────────────► unfit
//	      Traits has what is required, or lacks it
//
// While it is unfit, no claim enters, a claim that is granted leaves, and a claim that is renewed is lost.

// lacks returns why the store is unfit, or nil.
func (k *Keeper) lacks() error {
	if len(k.conf.Require) == 0 {
		return nil
	}
	return k.d.Traits().Require(k.conf.Require...)
}

// fences reports whether tickets are fencing tokens, as the store promises now.
func (k *Keeper) fences() bool { return k.d.Traits().Fencing != driver.NoFencing }

// enter enters a claim, unless the store is unfit.
func (k *Keeper) enter(s *send) (driver.Place, error) {
	if lacks := k.lacks(); lacks != nil {
		return driver.Place{}, driver.Refused(lacks)
	}
	return k.d.Enter(s.call, s.asks)
}

// doubt turns the grant of an unfit store into no answer: the claim enters again, which is refused, and leaves.
func (k *Keeper) doubt(r *protocol.Reply) {
	if !r.OK() || !r.Place.Holds {
		return
	}
	if lacks := k.lacks(); lacks != nil {
		r.Outcome, r.Err, r.Place = protocol.Unknown, lacks, driver.Place{}
	}
}
