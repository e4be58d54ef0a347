package quorum

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/boottime"
)

// A Node is one of the stores of a quorum.
type Node struct {
	Name   string        // such as its address; different for each node, and the same for all clients
	Driver driver.Driver // the store, if it is open; else nil

	// Open opens the store if Driver is nil. After an error it is called again later. A store that is no [Member] and opens
	// late takes no part among members.
	Open func(ctx context.Context) (driver.Driver, error)
}

// A Member is a store that can say who it is, and takes part in the choice of tickets. List and Break know a claim by the
// ticket that it got from Vote or Raise. The records that a member gets and shows may have a version: see [WithVersion].
// With the version, a record may be longer than [driver.MaxRecord].
type Member interface {
	driver.Driver
	driver.Lister
	driver.Breaker

	// Report describes the store, as it answers now.
	Report(ctx context.Context) (*Report, error)

	// Contact counts the connections that were made to the store. If it is the same after an answer as before a
	// report, the answer is from the server that the report is about.
	Contact() int64

	// Vote is Enter for a claim that keeps nothing in the store unless it holds. Its ticket is at least least, and larger
	// than every ticket that was given, or raised to, under its name before. A claim whose ticket is 1 waits here: if it is
	// refused, an Await follows.
	Vote(ctx context.Context, c *driver.Claim, least int64) (driver.Place, error)

	// Raise gives a claim that holds another ticket, and makes all later tickets under its name larger than that. The error
	// is [driver.ErrGone] if the store does not have the claim.
	Raise(ctx context.Context, c *driver.Claim, ticket int64) error

	// Find returns a claim as the store has it, with its client, owner, record and id. The id is the claim's, or the claim's
	// with a dash and a number behind it. The error is [driver.ErrGone] if no such claim has the claim's ticket.
	Find(ctx context.Context, c *driver.Claim) (*driver.Claim, error)

	// Free reports whether a name has no claim.
	Free(ctx context.Context, name string) (bool, error)
}

// A Report is a [Member]'s description of itself.
type Report struct {
	ID     string        // of the running server: another after each start, and different for any two
	Up     time.Duration // since it was started, or less
	Clock  time.Time     // its wall clock
	Keeps  bool          // keeps every claim and ticket, through a restart and while its memory is full
	Reason string        // why not, for people
}

// A node is one store of the quorum, with the quorum's knowledge of it.
type node struct {
	all      *nodes
	ids      *ids
	index    int
	name     string
	open     func(ctx context.Context) (driver.Driver, error)
	driver   atomic.Pointer[driver.Driver] // nil until it was opened
	checking chan struct{}                 // has room for one: the goroutine that opens or checks it
	rest     atomic.Pointer[rest]          // nil if the last request reached it

	mu      sync.Mutex    // guards what follows
	cause   error         // why it is not open
	report  *Report       // the last one; nil if there was none
	clock   time.Time     // the time by the member's clock
	at      time.Duration // when it showed that time, by ours
	within  time.Duration // at is exact to half of this
	contact int64         // the member's Contact when it was asked for report
	asked   time.Duration // when it was asked for report
	sound   bool          // report is the answer to the last question
	barred  time.Duration // when it votes again, by boottime, if why says why it does not
	why     string        // why it does not vote; "" if it votes
	other   time.Duration // until then another server is in the place of the one that was given the claims
	twin    string        // the name of a node that is the same server, or ""
}

func (n *node) use(store driver.Driver) { n.driver.Store(&store) }

func (n *node) says(err error) error { return fmt.Errorf("node %s: %w", n.name, err) }

// A barredError says why a node does not vote.
type barredError struct{ why string }

func (e *barredError) Error() string { return "it does not vote: " + e.why }

// store returns the node's store, or why it is not open.
func (n *node) store() (driver.Driver, error) {
	if store := n.driver.Load(); store != nil {
		return *store, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cause != nil {
		return nil, driver.Unsent(driver.Unreachable(n.cause))
	}
	return nil, driver.Unsent(driver.Unreachable(fmt.Errorf("it is not connected")))
}

// restFor is how long a node that could not be reached is not asked: a refused connection costs about as much as an answer.
const restFor = 100 * time.Millisecond

// A rest is why a node is not asked, and until when.
type rest struct {
	err   error
	until time.Time
}

// reachable returns the node's store, or why a request could not reach it a moment ago.
func (n *node) reachable() (driver.Driver, error) {
	if r := n.rest.Load(); r != nil && time.Now().Before(r.until) {
		return nil, r.err
	}
	return n.store()
}

// reached notes whether the node could be asked, by the outcome of a request.
func (n *node) reached(err error) {
	switch {
	case err != nil && driver.NotApplied(err) && driver.IsUnreachable(err):
		n.rest.Store(&rest{err, time.Now().Add(restFor)})
	case n.rest.Load() != nil:
		n.rest.Store(nil)
	}
}

// connect opens the node if it is not open, and checks it if it is a member. The error says why it cannot vote.
func (n *node) connect(ctx context.Context) error {
	if err := n.meet(ctx); err != nil {
		return err
	}
	return n.bar()
}

// meet is connect, whether or not the node can vote.
func (n *node) meet(ctx context.Context) error {
	select {
	case n.checking <- struct{}{}:
		defer func() { <-n.checking }()
	case <-ctx.Done():
		return driver.Ended(ctx, false)
	}
	if n.driver.Load() == nil {
		store, err := n.open(ctx)
		if err == nil {
			err = n.all.admit(store)
		}
		n.mu.Lock()
		n.cause = err
		n.mu.Unlock()
		if err != nil {
			return err
		}
		n.use(store)
	}
	m, ok := (*n.driver.Load()).(Member)
	if !ok {
		return nil
	}
	return n.check(ctx, m)
}

// close closes the store. It does not close a store that is being opened: New and Close wait for the opening.
func (n *node) close() error {
	if store := n.driver.Load(); store != nil {
		return (*store).Close()
	}
	return nil
}

// admitted returns nil if the member's votes count. It asks the member after a reconnection.
func (n *node) admitted(ctx context.Context, m Member) error {
	if n.met(m) {
		return n.bar()
	}
	return n.connect(ctx)
}

// met reports whether the client knows which server answers for the member.
func (n *node) met(m Member) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sound && n.contact == m.Contact()
}

// bar returns why the node does not vote, or nil.
func (n *node) bar() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.doubledLocked(); err != nil || n.why == "" {
		return err
	}
	if left := n.barred - boottime.Now(); left > 0 {
		return barred(fmt.Sprintf("%s, so not for another %v", n.why, left.Round(time.Second/10)))
	}
	n.why = ""
	return nil
}

func barred(why string) error { return driver.Unsent(driver.Unreachable(&barredError{why})) }

// doubledLocked returns an error if the node is the same server as another.
func (n *node) doubledLocked() error {
	if n.twin == "" {
		return nil
	}
	return barred("it is the same server as node " + n.twin)
}

// askMember asks a member about claims that it was given. The answer counts only if it is from the server that was given the
// claims, and if that server answers for one node only. Another server may have a copy of a claim, and a server with two
// nodes would count twice, while the server that was given the claim has let another one in.
func askMember[T any](ctx context.Context, n *node, m Member, what func() (T, error)) (a T, err error) {
	if err := n.genuine(ctx, m); err != nil {
		return a, driver.NotYet(err)
	}
	if a, err = what(); err != nil {
		return a, err
	}
	if err = n.genuine(ctx, m); err != nil {
		return a, driver.Unknown(fmt.Errorf("it answered, but %w", err))
	}
	return a, nil
}

// genuine returns nil if the same server answers for the member as before, and for no other node. It asks the member after a
// reconnection. The server may have forgotten something.
func (n *node) genuine(ctx context.Context, m Member) error {
	n.mu.Lock()
	known := n.report != nil && n.contact == m.Contact() // also while the member is asked again
	n.mu.Unlock()
	if !known {
		if err := n.meet(ctx); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.doubledLocked(); err != nil {
		return err
	}
	if left := n.other - boottime.Now(); left > 0 {
		return barred(fmt.Sprintf("%s, so not for another %v", replaced, left.Round(time.Second/10)))
	}
	return nil
}

func (n *node) isTwin() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.twin != ""
}

// check asks a member who it is, and judges the answer. The caller has checking.
func (n *node) check(ctx context.Context, m Member) error {
	n.mu.Lock()
	n.sound = false
	n.mu.Unlock()
	for range 3 {
		contact, sent := m.Contact(), boottime.Now()
		report, err := m.Report(ctx)
		if err != nil {
			return err
		}
		if m.Contact() != contact {
			continue // the report may be about the former server
		}
		n.admitVoter(report, contact, sent, boottime.Now())
		return nil
	}
	return driver.Unsent(driver.Unreachable(fmt.Errorf("its connections break")))
}

// replaced is why a node does not vote if another server is in its place.
const replaced = "another server is in its place, which may not have its claims"

// drift is the part by which a clock that nobody moved may go faster than ours.
const drift = 0.005

// admitVoter decides whether a member may vote, by its report between two moments of our clock.
func (n *node) admitVoter(r *Report, contact int64, sent, came time.Duration) {
	n.all.judging.Lock()
	defer n.all.judging.Unlock()
	defer n.all.advance()
	twin := n.all.twin(n, r.ID) // other reasons against its vote go on
	longest := n.all.o.MaxTTL + time.Duration(2*drift*float64(n.all.o.MaxTTL))
	n.mu.Lock()
	defer n.mu.Unlock()
	at := sent + (came-sent)/2
	within, moved := came-sent, false
	if n.report != nil {
		passed := at - n.at
		by := r.Clock.Sub(n.clock) - passed
		unsure := (within + n.within) / 2
		if allowed := n.all.o.ClockStep + unsure + time.Duration(drift*float64(passed)); by.Abs() > allowed {
			moved = true
			n.why, n.barred = fmt.Sprintf("its clock was moved by %v", by.Round(time.Millisecond)), came+longest
		}
	}
	kept := n.lossier(r)
	switch fresh := n.report == nil || n.report.ID != r.ID; {
	case fresh && n.report != nil && r.Up > came-n.asked:
		// This server was up before the former one answered, so it is not the former one restarted. It does not have that
		// one's claims.
		n.why, n.barred = replaced, came+longest
		n.other = n.barred
	case fresh && !kept.Keeps && r.Up < longest:
		n.why = fmt.Sprintf("it was started a short while ago and may have forgotten claims (%s)", kept.Reason)
		n.barred = max(n.barred, came+longest-r.Up)
	}
	if n.report == nil || moved || within <= max(n.within, n.all.o.ClockStep) { // a slow answer would hide a later move
		n.clock, n.at, n.within = r.Clock, at, within
	}
	n.twin, n.report, n.contact, n.asked, n.sound = twin, r, contact, sent, true
}

// lossier returns the report of the server that keeps less, of this one and the one before. Data that the former server did
// not keep are lost in a restart, even if the server keeps everything from then on.
func (n *node) lossier(r *Report) *Report {
	if r.Keeps && n.report != nil {
		return n.report
	}
	return r
}
