package session

import (
	"slices"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
	"github.com/stilelock/stile/internal/known"
)

// A state is the state of a claim in this client:
//
//	     ┌─────────┐ its key is held ┌─────────┐ Leave with Keep ┌──────┐
//	────►│ waiting │────────────────►│ holding │────────────────►│ kept │
//	     └──┬───┬──┘                 └──┬───┬──┘                 └─┬──┬─┘
//	        │   │ a try in vain         │   │ its connection ends  │  │
//	        │   └──────────────────────►over◄──────────────────────┘  │
//	        │                            ▲                            │
//	        │ Leave, or its time is over │ its key is in doubt no     │ Leave, or its
//	        │ or Enter has no answer     │ more, and the scout is     │ time is over
//	        │                       ┌────┴────┐ home                  │
//	        └──────────────────────►│ leaving │◄──────────────────────┘
//	                                └─────────┘
//
// A claim that waits has nothing in the server to lose, and goes on waiting when a connection ends. Nobody gets the answer
// that a leaving claim is gone.
type state int

const (
	claimWaiting state = iota
	claimHolding
	claimKept // it has left; its key stays locked until its time is over
	claimLeaving
	claimOver
)

// moves are the allowed transitions of a claim.
var moves = map[state][]state{
	claimWaiting: {claimHolding, claimLeaving, claimOver},
	claimHolding: {claimKept, claimLeaving, claimOver},
	claimKept:    {claimLeaving, claimOver},
	claimLeaving: {claimOver},
}

// A keyState is the session's knowledge of a lock in the server:
//
//	    ┌──────┐  a try   ┌───────┐    yes   ┌──────┐ nobody has it ┌─────────┐ yes
//	    │ free │─────────►│ asked │─────────►│ held │──────────────►│ freeing │─────► free
//	    └──────┘◄─────────└───┬───┘          └──┬───┘ here any more └────┬────┘
//	       ▲       no         │ no answer       │ its connection ends    │ no answer
//	       │             ┌────▼─────┐◄──────────┘                        │
//	       └─────────────┤ doubtful │◄───────────────────────────────────┘
//	the server knows the └──────────┘
//	connection no more
//
// A doubtful key counts as taken: no claim of this client asks for it, and no claim on it is reported gone.
type keyState int

const (
	keyFree keyState = iota
	keyAsked
	keyHeld
	keyFreeing
	keyDoubtful
)

// turns are the allowed transitions of a key.
var turns = map[keyState][]keyState{
	keyFree:     {keyAsked},
	keyAsked:    {keyFree, keyHeld, keyDoubtful},
	keyHeld:     {keyFreeing, keyDoubtful},
	keyFreeing:  {keyFree, keyDoubtful},
	keyDoubtful: {keyFree},
}

// A claim is a claim of this client.
type claim struct {
	id, key string
	shared  bool
	ticket  int64
	state   state         // moved by move
	ends    time.Time     // when its time is over
	refused error         // the server's error at the last request for its key; nil if the key was only taken
	settled chan struct{} // closed when it no longer waits
	over    chan struct{} // closed when it is over
}

// has reports whether a claim has its key.
func (c *claim) has() bool { return c.state == claimHolding || c.state == claimKept }

// A key is a lock that may not be free: one lock in the server, for all claims that share it here.
type key struct {
	name   string
	shared bool
	state  keyState      // moved by turn
	n      int           // claims that have it
	asker  *claim        // the claim that asked for it
	on     Conn          // of a doubtful key: the connection that may have it
	proven chan struct{} // closed when the key is no longer doubtful
}

// claims are the claims of this client, and their keys. It decides, and does no I/O. After each call,
//
//   - byID has the claims that are not over, line the waiting ones in the order of arrival, and leaving the leaving ones;
//   - keys has the keys that are not free; each held key counts its claims, at most 1 unless all of them
//     share it, and a key without a claim is in steps;
//   - steps has the keys to lock or free by the next statement.
type claims struct {
	byID    map[string]*claim
	line    []*claim
	leaving []*claim
	keys    map[string]*key
	steps   []*key
	joins   []*claim                 // claims that share a held key, once the home has answered
	fallen  map[string]time.Duration // ids of claims that went with their connection, and how long to remember them
	limit   known.Limit
	timeout time.Duration // the longest lease
	serial  int64         // the last ticket
	due     time.Time     // no claim's time is over before this
}

func newClaims(timeout time.Duration) *claims {
	return &claims{byID: map[string]*claim{}, keys: map[string]*key{}, fallen: map[string]time.Duration{}, timeout: timeout}
}

// add adds a waiting claim.
func (cs *claims) add(id, key string, shared bool) *claim {
	cs.serial++
	c := &claim{id: id, key: key, shared: shared, ticket: cs.serial, settled: make(chan struct{}), over: make(chan struct{})}
	cs.byID[id], cs.line = c, append(cs.line, c)
	return c
}

// find returns a claim that has not left.
func (cs *claims) find(id string) (*claim, error) {
	switch c := cs.byID[id]; {
	case c == nil || c.state == claimKept:
		return nil, cs.gone(id)
	case c.state == claimLeaving:
		return nil, driver.Unknown(errDoubtful)
	default:
		return c, nil
	}
}

// gone returns the error for a missing claim.
func (cs *claims) gone(id string) error {
	if _, fell := cs.fallen[id]; fell {
		return driver.ErrSession
	}
	return driver.ErrGone
}

// move moves a claim to a state. It returns false, and does nothing, if moves does not allow it.
func (cs *claims) move(c *claim, next state) bool {
	if !slices.Contains(moves[c.state], next) {
		return false
	}
	other := func(o *claim) bool { return o == c }
	switch c.state {
	case claimWaiting:
		cs.line = slices.DeleteFunc(cs.line, other)
		close(c.settled)
	case claimLeaving:
		cs.leaving = slices.DeleteFunc(cs.leaving, other)
	}
	switch next {
	case claimLeaving:
		cs.leaving = append(cs.leaving, c)
	case claimOver:
		delete(cs.byID, c.id)
		close(c.over)
	}
	c.state = next
	return true
}

// turn moves a key to a state. It returns false, and does nothing, if turns does not allow it.
func (cs *claims) turn(k *key, next keyState) bool {
	if !slices.Contains(turns[k.state], next) {
		return false
	}
	if k.state == keyDoubtful {
		close(k.proven)
	}
	k.state = next
	if next == keyFree {
		delete(cs.keys, k.name)
	}
	if next == keyAsked || next == keyFreeing {
		cs.keys[k.name] = k
		cs.steps = append(cs.steps, k)
	}
	return true
}

// free reports whether no claim of this client has a claim's key, or may have it.
func (cs *claims) free(c *claim) bool { return cs.keys[c.key] == nil }

// askForKey asks for the key of a waiting claim, unless this client already has it.
func (cs *claims) askForKey(c *claim) {
	switch k := cs.keys[c.key]; {
	case k == nil:
		c.refused = nil
		cs.turn(&key{name: c.key, shared: c.shared, asker: c, proven: make(chan struct{})}, keyAsked)
	case k.state == keyHeld && k.shared && c.shared:
		cs.joins = append(cs.joins, c)
	}
}

// release removes a claim that waits, holds or is kept.
func (cs *claims) release(c *claim) {
	had := c.has()
	if !cs.move(c, claimLeaving) || !had {
		return
	}
	k := cs.keys[c.key]
	if k.n--; k.n == 0 {
		cs.turn(k, keyFreeing)
	}
}

// hold gives a held key to a waiting claim.
func (cs *claims) hold(c *claim) {
	if k := cs.keys[c.key]; k != nil && k.state == keyHeld && (k.n == 0 || k.shared && c.shared) && cs.move(c, claimHolding) {
		k.n++
	}
}

// stepsOf returns the steps of the next statement; with undo, the steps that undo it, however far it got.
func (cs *claims) stepsOf(undo bool) []Step {
	list := make([]Step, len(cs.steps))
	for i, k := range cs.steps {
		list[i] = Step{Key: k.name, Shared: k.shared, Free: undo || k.state == keyFreeing}
	}
	return list
}

// answered takes the result of each step. It reports whether a key to be freed was no longer locked.
func (cs *claims) answered(done []bool) (lost bool) {
	steps, joins := cs.steps, cs.joins
	cs.steps, cs.joins = nil, nil
	for i, k := range steps {
		switch {
		case k.state == keyAsked && done[i]:
			cs.turn(k, keyHeld)
			cs.hold(k.asker)
			if k.n == 0 { // its claim has left meanwhile
				cs.turn(k, keyFreeing)
			}
			continue
		case k.state == keyFreeing && !done[i]:
			lost = true
			for _, c := range slices.Clone(cs.leaving) {
				if c.key == k.name {
					cs.fall(c)
				}
			}
		}
		cs.turn(k, keyFree)
	}
	for _, c := range joins {
		cs.hold(c)
	}
	return lost
}

// undone takes the reason why no step locked or freed a key.
func (cs *claims) undone(why error) {
	for _, k := range cs.steps {
		k.asker.refused = why
		cs.turn(k, keyFree)
	}
	cs.steps, cs.joins = nil, nil
}

// fell notes the end of the home, and returns the ids of the claims that went with it.
func (cs *claims) fell(home Conn) (ids []string) {
	for _, k := range cs.keys {
		if cs.turn(k, keyDoubtful) {
			k.on, k.n = home, 0
		}
	}
	for _, c := range cs.byID {
		if c.has() {
			cs.fall(c)
			ids = append(ids, c.id)
		}
	}
	cs.steps, cs.joins = nil, nil
	return ids
}

// fall ends a claim whose key was lost.
func (cs *claims) fall(c *claim) {
	cs.move(c, claimOver)
	if cs.limit.Reached(len(cs.fallen)) {
		now := boottime.Now()
		for id, until := range cs.fallen {
			if now > until {
				delete(cs.fallen, id)
			}
		}
		cs.limit.Swept(len(cs.fallen))
	}
	cs.fallen[c.id] = known.Until(cs.timeout)
}

// proven notes that the server no longer knows a connection.
func (cs *claims) proven(gone Conn) {
	for _, k := range cs.keys {
		if k.state == keyDoubtful && k.on == gone {
			cs.turn(k, keyFree)
		}
	}
}

// settle ends leaving claims of which nothing remains in the server. A stray scout may still lock its key for a moment.
func (cs *claims) settle(scouted string) {
	for _, c := range slices.Clone(cs.leaving) {
		if k := cs.keys[c.key]; c.key != scouted && (k == nil || k.state == keyHeld) {
			cs.move(c, claimOver)
		}
	}
}

// until extends a claim's time; it never shortens it.
func (cs *claims) until(c *claim, t time.Time) {
	if t.After(c.ends) {
		c.ends = t
	}
	if c.ends.Before(cs.due) {
		cs.due = c.ends
	}
}

// expire removes the claims whose time is over.
func (cs *claims) expire(now time.Time) {
	if now.Before(cs.due) {
		return
	}
	cs.due = now.Add(time.Hour)
	for _, c := range cs.byID {
		switch {
		case c.state == claimLeaving:
		case !now.Before(c.ends):
			cs.release(c)
		case c.ends.Before(cs.due):
			cs.due = c.ends
		}
	}
}
