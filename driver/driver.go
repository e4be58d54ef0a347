// Package driver defines what a store must do to keep locks, and the rule that decides who holds them.
//
// A lock is a queue of claims. Programs use package stile; this package is for people who write a store.
// The queue's rule is [Holding]; its behaviour in full is [Queue], a state machine without clock or I/O, which a
// driver may run as it is, or imitate in the language of its store. Package drivertest holds a driver to it.
package driver

import (
	"context"
	"time"
)

// A Driver keeps, for every name, a queue of claims in the order in which they came, each with a lease.
//
// All methods may be called at once from many goroutines, end when their context ends, and take times as durations:
// no clock is ever compared with another. A driver that lacks a power says so in its [Traits] and answers
// [ErrUnsupported]; it never approximates.
//
// An error says what became of the request: [Refused] marks the store's no, [Unsent] a request that never left. Any other
// error leaves the outcome unknown: the request may have been applied, or may be applied yet. See [OutcomeOf]. The end of
// the caller's context is what [Ended] returns, and never a refusal.
type Driver interface {
	// Enter puts the claim at the tail of its queue, or finds it where it stands, and starts its lease anew: TTL if it
	// holds, else Wait. So it is also how a waiting claim stays alive, and it may be repeated after a lost reply. A lease that a
	// store had ready, such as a session, may have begun before, and at least half of it is left: [Place.TTL] says how much.
	//
	// A caller enters a claim again once the Enter before has returned, or its context has ended. A driver may rely on this: two
	// at the same time may come to two places in some stores. But it has to expect that a request of the earlier one arrives late,
	// also after the later one was answered.
	//
	// A claim with Try enters only if it holds at once; if not, nothing is kept and the place says so.
	// A claim with a Ticket has entered before: it is found, or the error is [ErrGone], and nothing is put back.
	// The error is a [*CapacityError] if the queue has another capacity.
	Enter(ctx context.Context, c *Claim) (Place, error)

	// Await returns when the place of a claim that waits may have changed, and may return early. A place that holds
	// says that the claim has come to hold since its last Enter, on the lease that this Enter began; the notification may have
	// come before the call, and that lease may be over. Any other place says: enter again.
	// It does not renew, and a lost notification costs no more than the time until the caller's context ends.
	Await(ctx context.Context, c *Claim) (Place, error)

	// Renew starts the leases of many claims anew, each for its own TTL (Wait, if it does not hold), and answers each
	// at the same index. A claim that is not there gets [ErrGone]; if it went with the session that it lived in,
	// [ErrSession]. One claim's failure does not touch another's.
	//
	// A claim with an Amend is changed in the same step, and claims that hold because of the change are woken. It may be
	// repeated after a lost reply, until it is answered: a claim that is so already is renewed only. See [Claim.Amended]
	// for what is refused; the lease of a claim whose amendment is refused may have begun anew or not.
	Renew(ctx context.Context, cs []*Claim) []Renewal

	// Leave takes a claim out of its queue, whether it holds or waits, and wakes the claims that hold because of it.
	// With Keep, a claim that holds stays that long, then ends without [Claim.Delay]; it can no longer be renewed.
	// The error is [ErrGone] if the claim is not there. It may be called while the claim is being renewed: whichever comes
	// first, the claim is gone, and the renewal does not bring it back.
	Leave(ctx context.Context, l *Release) error

	// Traits tells what the store can promise, as far as the driver knows by now. A driver that is connected to its store
	// anew may ask it again, so that what it promises may become less; it does not wait for that here.
	Traits() Traits

	// Close ends every call and frees what the driver took. Claims stay in the store, unless Traits.OwnClient. Closing twice is
	// harmless.
	Close() error
}

// A Claim asks for Weight out of the Capacity of Name.
type Claim struct {
	Name     string        // as the user gave it; see CheckName and EncodeName
	ID       string        // 128 random bits as text, chosen before the first Enter, never used for a second acquisition
	Client   string        // who is to be woken; the same for all claims of one driver's user
	Weight   int64         // from 1 to Capacity
	Capacity int64         // from 1 to All; or 0 for the name's own count, which only a store with Traits.Counts keeps
	TTL      time.Duration // lease while it holds
	Wait     time.Duration // lease while it waits, at most TTL; unless Traits.FullWait says that it is TTL then too
	Delay    time.Duration // how long a lease that ran out while it held keeps the lock from others; 0 means not at all
	Ticket   int64         // where it stands, once known; 0 before that
	Owner    string        // with Reclaim: the stable name of a job
	Try      bool          // enter only if it holds at once
	Reclaim  bool          // entering removes what other clients with the same Owner, earlier runs, have here, unless it is kept
	Record   string        // shown to observers and kept as it is, unless Traits.ShortRecord; at most MaxRecord bytes
	Amend    *Amendment    // with Renew: what changes about a claim that holds; nil means nothing
}

// An Amendment changes a claim that holds, where it stands: its ticket, its place and its lease stay. It is not changed
// once it is part of a request. A store that has it says so in Traits.Amends.
type Amendment struct {
	Weight int64  // from now on; at most what it was, so that no other claim ceases to hold; 0 means as it was
	Record string // from now on, in place of Claim.Record; empty means as it was
}

// All is the weight and the capacity of an exclusive claim. A shared claim has weight 1 out of All.
const All int64 = 1<<31 - 1

// MaxRecord is the size in bytes that a claim's record may have.
const MaxRecord = 4096

// A Place is where a claim stands.
type Place struct {
	Ticket  int64         // rises with every claim that enters the name, from 1 to below 1<<53; 0 if a try did not enter
	Holds   bool          // the claim holds the lock
	TTL     time.Duration // lease that the store confirmed, from some moment after the request was sent; 0 from Await
	Retry   time.Duration // when a claim may run out that only this one has to notice: ask again by then; 0 means not known
	Ahead   int           // how many claims stand before it; for one that waits, perhaps with some that have left since
	Blocker ClaimInfo     // the claim at the head, for one that does not hold; zero if the store does not tell, or only a Record, which says what else is in the way
}

// A Release is a claim that leaves.
type Release struct {
	Claim *Claim
	Keep  time.Duration // how long the lock stays taken after the call; 0 means not at all
}

// A Renewal is what became of one claim's lease.
type Renewal struct {
	TTL  time.Duration // lease that the store confirmed, from some moment after the request was sent
	Err  error
	Asks int64 // how often somebody has asked for the lock that the claim holds; it is the holder's to decide. See [BreakRequest.Ask]
}

// A ClaimInfo is one claim as an observer sees it.
type ClaimInfo struct {
	Ticket    int64
	Weight    int64
	Holds     bool
	Left      bool          // released, and kept for a while
	Since     time.Duration // how long ago it entered
	Remaining time.Duration // lease left; negative while only the lock-delay keeps others out; 0 if the store does not tell
	Record    string
}

// A Listing is the queue of one name as an observer sees it.
type Listing struct {
	Name     string
	Capacity int64
	Counted  bool        // the capacity is the name's own count, as the store has it now
	Record   string      // of a count: the Record of the request that changed it last; "" if that had none, or is not known
	Claims   []ClaimInfo // in ticket order
}

// A Query selects names: one, or all that begin with a prefix.
type Query struct {
	Name   string // exactly this one
	Prefix string // or, if Name is empty, all that begin with this
	Count  bool   // with Name: a name that has a count of its own is not left out for want of claims
}

// A Lister is a driver that can show its queues. Names come in order of their bytes; a name without claims is left out.
type Lister interface {
	List(ctx context.Context, q *Query) ([]Listing, error)
}

// A Watcher is a driver that can tell when a queue has changed without being asked again and again.
type Watcher interface {
	// Watch calls changed once when the watch stands, and then after every change of the queue: a claim entered, left,
	// is kept, came to hold, was amended, or ran out. It may call more often; several changes may be one call. It goes on until ctx
	// ends, whose error it returns, or until it can no longer tell, and then it returns why. changed returns soon, and
	// is not called twice at once, nor after the return.
	Watch(ctx context.Context, name string, changed func()) error
}

// An Alerter is a driver that learns by itself when claims are in danger: somebody removed them, or their session is in
// doubt or over.
type Alerter interface {
	// Alert names the function that hears, from any goroutine, the ids of claims that had better be renewed at once,
	// which tells what became of them. It returns soon. Alert is called once, before the first Enter.
	Alert(endangered func(ids ...string))
}

// An Identifier is a driver that knows its store by an id, by whatever address it was opened. Locks in several stores are taken
// in the order of the ids, so that no two programs wait for each other.
type Identifier interface {
	// Identity returns the store's id, of printable characters. All clients of the store get the same one, whenever
	// and from wherever they ask, and clients for which the same name is another lock get another one. So the store itself
	// keeps the id: it is drawn at random at the first call, unless it was when the store was made. A driver asks the store
	// each time if the store may have lost the id. A copy of a store has the id of the original.
	// The error is [ErrUnsupported] if the store keeps none.
	Identity(ctx context.Context) (string, error)
}

// A Breaker is a driver that can remove another's claim, or ask for it, or change what the name has of its own.
type Breaker interface {
	// Break removes the claim with this ticket, or the one at the head if ticket is 0, and returns it as it stood.
	// The error is [ErrGone] if there is none.
	//
	// With Ask, the claim stays as it is, and its renewals tell from then on that somebody has asked once more: see
	// [Renewal.Asks]. Only a claim that holds can be asked for: one that waits, has left, or ran out, is [ErrGone].
	//
	// With Count, the name's own count of permits is changed, or made, and the answer is no claim. A request whose outcome
	// is unknown does not undo a change that another makes after it.
	Break(ctx context.Context, b *BreakRequest) (ClaimInfo, error)
}

// A BreakRequest names what is done by hand: the claim that is to be removed, or asked for, or the count that is to be changed.
type BreakRequest struct {
	Name   string
	Ticket int64  // 0 means the claim at the head
	Ask    bool   // the claim's client is asked to release it, and nothing is removed; needs Traits.Asks
	Count  *int64 // the name's own count becomes this, from 0 to MaxCount, and nothing is removed; needs Traits.Counts
	Record string // with Count: who changes it and why, for people; at most MaxRecord bytes
}
