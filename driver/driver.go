// Package driver defines what a store must do to keep locks, and the rule that decides who holds them.
//
// A lock is a queue of claims. Programs use package stile; this package is for people who write a store. The queue's rule is
// [Holding]. Its full behaviour is [Queue], a state machine without a clock or I/O. A driver may run the Queue unchanged, or
// imitate it in the language of its store. Package drivertest checks a driver against it.
package driver

import (
	"context"
	"fmt"
	"time"
)

// A Driver keeps, for every name, a queue of claims in the order in which they arrived, each with a lease.
//
// All methods may be called at once from many goroutines, end when their context ends, and take times as durations:
// no clock is ever compared with another. A driver that lacks a power says so in its [Traits] and answers
// [ErrUnsupported]; it never approximates.
//
// An error says what happened to the request: [Refused] marks the store's no, [Unsent] a request that never left. Any other
// error leaves the outcome unknown: the request may have been applied, or may still be applied. See [OutcomeOf]. When the
// caller's context ends, the error is the result of [Ended], and never a refusal.
type Driver interface {
	// Enter puts the claim at the tail of its queue, or finds it where it stands, and restarts its lease: TTL if it
	// holds, else Wait. So Enter also keeps a waiting claim alive, and may be repeated after a lost reply. If a store
	// had a lease ready, such as a session, the lease may have begun earlier. At least half of it must be left:
	// [Place.TTL] says how much.
	//
	// A caller enters a claim again only after the earlier Enter has returned, or its context has ended. A driver may rely on
	// this: in some stores, two calls at the same time would give two places. But a request of the earlier call may arrive
	// late, even after the later call was answered.
	//
	// A claim with Try enters only if it holds at once; if not, nothing is kept and the place says so. A claim with a Ticket
	// has entered before: it is found, or the error is [ErrGone], and nothing is put back. The error is a [*CapacityError] if
	// the queue has another capacity. In some stores a refused claim stands in the queue until its client takes it out again
	// or, if the client has died, until its lease ends. Meanwhile it counts for all there is: it holds beside nobody, and no
	// claim behind it holds.
	Enter(ctx context.Context, c *Claim) (Place, error)

	// Await returns when the place of a waiting claim may have changed, and may return early. A place that holds says that
	// the claim has begun to hold since its last Enter, on the lease that this Enter began. The notification may have arrived
	// before the call, and that lease may be over. Any other place means: enter again. Await does not renew. A lost
	// notification costs no more than the time until the caller's context ends.
	Await(ctx context.Context, c *Claim) (Place, error)

	// Renew restarts the leases of many claims, each for its own TTL (Wait, if it does not hold), and answers each at
	// the same index. A missing claim gets [ErrGone], [ErrSession] if it ended with the session that it lived in, or
	// a [*BrokenError] if the driver knows that somebody removed it by hand. One claim's failure does not touch
	// another claim.
	//
	// A claim with an Amend is changed in the same step, and claims that hold because of the change are woken. The
	// call may be repeated after a lost reply, until it is answered: if the claim is already changed, it is only
	// renewed. [Claim.Amended] says which changes are refused. If a change is refused, the lease may have been
	// restarted or not.
	Renew(ctx context.Context, cs []*Claim) []Renewal

	// Leave removes a claim from its queue, whether it holds or waits, and wakes the claims that hold because of it. With
	// Keep, a holding claim stays for that time, then ends without [Claim.Delay]; it can no longer be renewed. The error is
	// [ErrGone] if the claim is not there. It may be called while the claim is being renewed: whichever comes first, the
	// claim is gone, and the renewal does not bring it back.
	Leave(ctx context.Context, l *Release) error

	// Traits returns what the store can promise, as far as the driver knows. After a new connection the driver may ask its
	// store again, so the promises may become fewer. Traits does not wait for that.
	Traits() Traits

	// Close ends every call and frees the driver's resources. Claims stay in the store, unless Traits.OwnClient.
	// Closing twice is harmless.
	Close() error
}

// A Claim asks for Weight out of the Capacity of Name.
type Claim struct {
	Name     string        // as the user gave it; see CheckName and EncodeName
	ID       string        // 128 random bits as text, chosen before the first Enter, never used for a second acquisition
	Client   string        // the client to wake; the same for all claims of one driver's user
	Weight   int64         // from 1 to Capacity
	Capacity int64         // from 1 to All
	TTL      time.Duration // lease while it holds
	Wait     time.Duration // lease while it waits, at most TTL; with Traits.FullWait the lease is TTL then too
	Delay    time.Duration // how long the lock stays closed after the lease ran out while the claim held; 0 means not at all
	Ticket   int64         // its ticket, once known; 0 before that
	Owner    string        // with Reclaim: the stable name of a job
	Try      bool          // enter only if it holds at once
	Reclaim  bool          // entering removes other clients' claims with the same Owner, the earlier runs, unless they are kept
	Record   string        // shown to observers and kept as it is, unless Traits.ShortRecord; at most MaxRecord bytes
	Amend    *Amendment    // with Renew: the change to a holding claim; nil means none
}

// An Amendment changes a holding claim in its place: its ticket, its place and its lease stay the same. The caller must not
// change an Amendment that is part of a request. A store with this power has Traits.Amends.
type Amendment struct {
	Weight int64  // from now on; at most the old weight, so that no other claim ceases to hold; 0 means unchanged
	Record string // from now on, in place of Claim.Record; empty means as it was
}

// All is the weight and the capacity of an exclusive claim. A shared claim has weight 1 out of All.
const All int64 = 1<<31 - 1

// MaxRecord is the largest size in bytes of a claim's record.
const MaxRecord = 4096

// A Place is a claim's position in its queue.
type Place struct {
	Ticket  int64         // rises with every claim that enters the name, from 1 to below 1<<53; 0 if a try did not enter
	Holds   bool          // the claim holds the lock
	TTL     time.Duration // lease that the store confirmed, from some moment after the request was sent; 0 from Await
	Retry   time.Duration // when a claim may run out that only this claim has to notice: ask again by then; 0 means not known
	Ahead   int           // how many claims stand before it; for a waiting claim, this may include claims that have left since
	Blocker ClaimInfo     // the head claim, for a waiting claim; zero if unknown, or only a Record with another obstacle
}

// A Release is a claim that leaves its queue.
type Release struct {
	Claim *Claim
	Keep  time.Duration // how long the lock stays taken after the call; 0 means not at all
}

// A Renewal is the result of renewing one claim.
type Renewal struct {
	TTL  time.Duration // lease that the store confirmed, from some moment after the request was sent
	Err  error
	Asks int64 // how often somebody has asked for the lock that the claim holds; the holder decides. See [BreakRequest.Ask]
}

// A ClaimInfo is one claim as an observer sees it.
type ClaimInfo struct {
	Ticket    int64
	Weight    int64
	Holds     bool
	Left      bool          // released, and kept for a while
	Since     time.Duration // how long ago it entered, even if it came to hold or was amended later; 0 if unknown
	Remaining time.Duration // lease left; negative while only the lock-delay keeps others out; 0 if unknown
	Record    string
	Principal string // who entered it, as the lock service knows its clients; "" from a store
}

// A Listing is the queue of one name as an observer sees it.
type Listing struct {
	Name     string
	Capacity int64
	Claims   []ClaimInfo // in ticket order
}

// A Query selects names: one, or all that begin with a prefix.
type Query struct {
	Name   string // exactly this one
	Prefix string // or, if Name is empty, all that begin with this
}

// A Lister is a driver that can show its queues. Names come in order of their bytes; a name without claims is left out. A
// long List calls [Heard] after each part of the store's answer, and lasts for as long as its context does.
type Lister interface {
	List(ctx context.Context, q *Query) ([]Listing, error)
}

// A Watcher is a driver that can report changes of a queue without being polled.
type Watcher interface {
	// Watch calls changed once when the watch has begun, and then after every change of the queue: a claim entered, left, is
	// kept, began to hold, was amended, or ran out. It may call more often; several changes may be one call. It goes on until
	// ctx ends, and returns the error of ctx, or until it can no longer watch, and then it returns the reason. changed
	// returns soon. It is not called twice at once, nor after the return.
	Watch(ctx context.Context, name string, changed func()) error
}

// An Alerter is a driver that learns by itself when claims are in danger: somebody removed them, or their session is in
// doubt or over. What it learns ends no lease; the answer to the renewal does. So a message that is forged, late or misled
// costs a renewal, and nothing else.
type Alerter interface {
	// Alert sets a function. The driver calls it, from any goroutine, with the ids of claims that should be renewed at once;
	// the renewal then shows what happened to them. The function returns soon. Alert is called once, before the first Enter.
	Alert(endangered func(ids ...string))
}

// An Adopter is a driver by which only a claim that entered by it last learns of its turn; any other claim's Await returns
// early. Where several drivers serve one client, for example in replicas of a service, a driver adopts a claim before it awaits
// it.
type Adopter interface {
	// Adopt finds a claim that has a Ticket, as Enter does, and makes the store notify this driver of the claim. It does not
	// restart the lease: Place.TTL is the rest of it. If the claim is not there, the error is [ErrGone].
	Adopt(ctx context.Context, c *Claim) (Place, error)
}

// An Identifier is a driver that knows its store by an id, whatever the address. Locks in several stores are taken in the
// order of the ids, so that no two programs wait for each other.
type Identifier interface {
	// Identity returns the store's id, of printable characters. All clients of the store get the same id, at any time and
	// from anywhere. Clients for which the same name is another lock get another id. So the store itself keeps the id. It is
	// drawn at random at the first call, or when the store is created. A driver asks the store each time if the store may
	// have lost the id. A copy of a store has the id of the original. The error is [ErrUnsupported] if the store keeps none.
	Identity(ctx context.Context) (string, error)
}

// A Breaker is a driver that can remove another client's claim, or ask for it.
type Breaker interface {
	// Break removes the claim with this ticket, or the claim at the head if ticket is 0, and returns it in its last state.
	// The error is [ErrGone] if there is none.
	//
	// With [Traits.HearsBreak], the client of the claim is alerted in the same step: see [Alerter]. The message
	// carries the Record, cut to the size of the store's messages, if the store has such messages.
	//
	// With Ask, the claim stays as it is, and its later renewals report one more request for the lock: see
	// [Renewal.Asks]. Only a holding claim can be asked for. For a claim that waits, has left, or ran out, the error
	// is [ErrGone].
	Break(ctx context.Context, b *BreakRequest) (ClaimInfo, error)
}

// A BreakRequest asks to remove a claim by hand, or asks its client for the lock.
type BreakRequest struct {
	Name   string
	Ticket int64  // 0 means the claim at the head
	Ask    bool   // the claim's client is asked to release it, and nothing is removed; needs Traits.Asks
	Record string // who asks for this and why, for people; at most MaxRecord bytes; see BrokenError
}

// Removes returns [ErrUnsupported] for a request with Ask. A driver whose traits lack Asks begins Break with it.
func (b *BreakRequest) Removes() error {
	if b.Ask {
		return fmt.Errorf("%w: it cannot ask a holder for its lock", ErrUnsupported)
	}
	return nil
}
