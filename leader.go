package stile

import (
	"context"
	"iter"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/engine"
)

// Candidate returns the lock whose holder is the leader of a name. The value, such as the leader's address, stands in
// the holder's record for everybody to see, from the moment in which it leads.
//
// [Lock.Do] is a whole term: it campaigns, leads while its function runs, and resigns. The function must return when its
// context ends, since then another may lead, or is about to; what it writes must carry the [Lease.Token], for the case
// that it does not get to look. To stand again after that, call Do again. [Lock.Lock] only campaigns, and [Lease.Unlock]
// resigns. Anybody asks who leads with [Client.Leader], and follows it with [Client.Observe].
func (c *Client) Candidate(name, value string) *Lock {
	l := c.lock(name, driver.All, driver.All)
	l.value = value
	l.set(l.opts)
	return l
}

// A Leader is who leads a name, as seen at some moment. The zero Leader means that nobody does.
type Leader struct {
	Ticket int64  // the first of the tokens that it may give out; 0 if nobody leads
	Value  string // what it stands for; see Client.Candidate
	Holder Holder
}

// Leads reports whether anybody leads.
func (l Leader) Leads() bool { return l.Ticket != 0 }

// Issued reports whether a token is of this leader's present term: a request with a smaller one is from a leader before
// it, and one with a larger from a leader after it.
func (l Leader) Issued(token int64) bool {
	return l.Leads() && l.Ticket <= token && token < l.Ticket+engine.Turns
}

// Leader returns who leads a name, as the store sees it: the leader itself may be about to find out that it no longer
// does. Nobody leads a name that is free, or held by readers or by permits. The error is [ErrUnsupported] if the store
// cannot tell.
func (c *Client) Leader(ctx context.Context, name string) (Leader, error) {
	q, err := c.shown(ctx, "leader", name)
	return leaderOf(q), err
}

// Observe yields who leads a name now and after every change, which may be that nobody does, until ctx ends or the loop
// is left. Candidates that come and go yield nothing; a leader that was elected again is a change, as its tokens are
// others. A term that is over at once may be missed.
//
// Stores that can tell of changes are not polled. Failures are yielded as by [Client.Watch], with a zero Leader: until
// the next leader is yielded it is not known who leads.
func (c *Client) Observe(ctx context.Context, name string) iter.Seq2[Leader, error] {
	return watched(ctx, c, "observe", name, leaderOf, func(a, b Leader) bool { return a != b })
}

// leaderOf returns the claim that leads: the one that holds alone, unless it was released or only its lock-delay is left.
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
