package line

import (
	"context"
	"errors"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// RenewAll renews claims that have one node each.
func (k *Keeper) RenewAll(ctx context.Context, cs []*driver.Claim) []driver.Renewal {
	answers := make([]driver.Renewal, len(cs))
	shares := map[*wire.Session][]int{}
	k.mu.Lock()
	for i, c := range cs {
		switch lc := k.localClaims[c.ID]; {
		case k.zk.Ctx.Err() != nil:
			answers[i].Err = driver.ErrClosed
		case lc == nil:
			answers[i].Err = driver.ErrGone
		default:
			if answers[i].Err = k.verdictLocked(lc); answers[i].Err == nil {
				shares[lc.Session] = append(shares[lc.Session], i)
			} else if lc.lease.state == claimOver {
				k.forgetLocked(lc)
			}
		}
	}
	k.mu.Unlock()
	for s, share := range shares {
		own := make([]*driver.Claim, len(share))
		for i, at := range share {
			own[i] = cs[at]
		}
		for i, answer := range k.renew(ctx, s, own) {
			answers[share[i]] = answer
		}
	}
	return answers
}

// renew renews claims of one session.
func (k *Keeper) renew(ctx context.Context, s *wire.Session, cs []*driver.Claim) []driver.Renewal {
	answers := make([]driver.Renewal, len(cs))
	localClaims := make([]*LocalClaim, len(cs)) // nil once a claim has its answer
	left := 0
	for i, c := range cs {
		lc := k.LocalClaimOf(c.ID)
		if lc == nil {
			answers[i].Err = driver.ErrGone
			continue
		}
		if lc.Session != s { // the claim has entered again, with a gap in its lease: s shows nothing about the new node
			answers[i].Err = driver.ErrSession
			continue
		}
		stands, err := k.settle(ctx, lc)
		switch {
		case err != nil:
			answers[i].Err = err
		case !stands:
			k.forget(lc)
			answers[i].Err = driver.ErrGone
		default:
			localClaims[i] = lc
			left++
		}
	}
	for left > 0 { // mostly once; a node that changes meanwhile is read again
		left = k.renewOnce(ctx, s, cs, localClaims, answers)
	}
	return answers
}

// renewOnce answers the claims whose watches stood during the request, or whose nodes it read. It returns how many claims
// are left.
func (k *Keeper) renewOnce(
	ctx context.Context, s *wire.Session, cs []*driver.Claim, localClaims []*LocalClaim, answers []driver.Renewal,
) (left int) {
	calls := k.zk.Proven()
	looks := make([]*wire.Call, len(cs))
	k.mu.Lock()
	for i, lc := range localClaims {
		if lc != nil && !lc.listener.own.Stands() {
			looks[i] = k.janitor.inspectLocked(lc)
			calls = append(calls, looks[i])
		}
	}
	k.mu.Unlock()
	err := k.zk.Do(ctx, s, calls...)
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, lc := range localClaims {
		switch {
		case lc == nil:
			continue
		case err != nil:
			answers[i].Err = err
			if errors.Is(err, driver.ErrSession) {
				k.forgetLocked(lc)
			}
		case looks[i] == nil && !lc.listener.own.Stands() && lc.lease.stands():
			left++
			continue
		default:
			answers[i] = k.renewedLocked(lc, cs[i], looks[i])
		}
		localClaims[i] = nil
	}
	return left
}

// renewedLocked takes the answer for one claim.
func (k *Keeper) renewedLocked(lc *LocalClaim, c *driver.Claim, look *wire.Call) driver.Renewal {
	if look != nil {
		_ = k.janitor.inspectedLocked(lc, look, true) // verdictLocked returns it
	}
	if gone := k.verdictLocked(lc); gone != nil {
		if lc.lease.state == claimOver {
			k.forgetLocked(lc)
		}
		return driver.Renewal{Err: gone}
	}
	lease := c.Wait
	if lc.lease.state == claimHolding {
		lease = c.TTL
	}
	k.ProlongLocked(lc, lease)
	return driver.Renewal{TTL: lc.TrustedLocked(), Asks: lc.listener.demand.tell()} // a waiting claim may hold by now
}
