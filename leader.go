package stile

import (
	"context"
	"iter"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
)

// Candidate returns the lock whose holder is the leader of a name. The value, such as the leader's address, is in the
// holder's record, where everybody can read it from the moment when the candidate leads.
//
// [Lock.Do] is a whole term: it campaigns, leads while its function runs, and resigns. The function must return when its
// context ends, since then another candidate leads, or soon will. Its writes must carry the [Lease.Token], since a paused
// leader cannot check its context. To stand again after that, call Do again. [Lock.Lock] only campaigns, and [Lease.Unlock]
// resigns. [Client.Leader] returns the leader to anybody, and [Client.Observe] follows it.
func (c *Client) Candidate(name, value string) *Lock {
	l := c.lock(name, driver.All, driver.All)
	l.value = value
	l.set(l.opts)
	return l
}

// A Leader is the leader of a name, as seen at some moment. The zero Leader means that nobody leads.
type Leader struct {
	Ticket int64  // the first of its possible tokens; 0 if nobody leads
	Value  string // its value; see Client.Candidate
	Holder Holder
}

// Leads reports whether anybody leads.
func (l Leader) Leads() bool { return l.Ticket != 0 }

// Issued reports whether a token belongs to this leader's present term. A smaller token is an earlier leader's, and a larger
// one a later leader's.
func (l Leader) Issued(token int64) bool {
	return l.Leads() && l.Ticket <= token && token < l.Ticket+engine.Turns
}

// Leader returns the leader of a name, as the store sees it: the leader itself may not know yet that it no longer leads.
// Nobody leads a name that is free, or held by readers or by permits. The error is [ErrUnsupported] if the store cannot list
// its queues.
func (c *Client) Leader(ctx context.Context, name string) (Leader, error) {
	q, err := c.shown(ctx, "leader", name)
	return leaderOf(q), err
}

// Observe yields the leader of a name now and after every change, until ctx ends or the loop is left. A change may be that
// nobody leads. Candidates that come and go are no change. A leader that was elected again is a change, since its tokens
// differ. Observe may miss a term that is over at once.
//
// Observe does not poll a store that can push changes. It yields failures like [Client.Watch], with a zero Leader: the leader
// is then unknown until Observe yields the next one.
func (c *Client) Observe(ctx context.Context, name string) iter.Seq2[Leader, error] {
	return watched(ctx, c, "observe", name, leaderOf, func(a, b Leader) bool { return a != b })
}

// leaderOf returns the claim of the leader: the only holder, unless it was released or only its lock-delay is left.
func leaderOf(q Queue) Leader {
	if len(q.Claims) == 0 {
		return Leader{}
	}
	first := q.Claims[0]
	if !first.Holds || first.Left || first.Weight != 0 || first.Remaining < 0 {
		return Leader{}
	}
	return Leader{Ticket: first.Ticket, Value: first.Holder.Value, Holder: first.Holder}
}
