package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
	"github.com/stilelock/stile/internal/known"
)

// The bounds of a server protect its clients from one that asks too much, most often by a mistake in a loop. Servers over one
// store share nothing, so each counts its own requests.
//
// No bound refuses what keeps or ends an existing claim: a renewal, Leave, a Break, or Enter with a ticket. A request that waits
// for the turn of an existing claim is only cut short, and its client asks again. So no bound costs a lock. It may cost a place: a
// request that repeats one without an answer has no ticket, counts as new, and may be refused until its claim has run out.
//
// One bound refuses any request: that of a principal's requests under way. Otherwise a principal could have every connection while the
// store hangs, and nobody else could renew. The client learns that the server cannot be reached, and asks another one.

const (
	defaultMaxWaits = 30_000 // about 700 MB if all wait
	defaultMaxRate  = 10_000 // requests per second; two processors serve about as many

	// defaultMaxClaims is the most claims of a principal, at about 200 bytes each. More than its waits fit in.
	defaultMaxClaims = 30_000

	// maxLists is the most lists of a prefix at a time. Each costs the store a pass over its names, and memory for the answer.
	maxLists = 16

	// maxLooks is the most queues of one name that are read at a time, without those of Consul's clients. A principal can make a queue as
	// long as maxClaims, with a record of 4,096 bytes in each claim.
	maxLooks = 32

	// maxCalls is the most calls of batches under way at a time, which no bound of connections bounds. An item above it waits: it
	// may end a claim. At a store that takes 100 ms these are twice as many calls as defaultMaxRate.
	maxCalls = 2048

	// callWithin is how long the items of a batch for new claims wait for room. A burst finds room in that time, unless the store hangs.
	callWithin = time.Second
)

// The times of Retry-After. A claim that is in the queue comes again within the grace; one that is not, need not hurry.
const (
	soon  = time.Second
	later = 2 * time.Second
)

// A tooMany is the error of a request that exceeds a bound.
type tooMany struct {
	error
	after time.Duration // when to ask again
}

func (e *tooMany) Unwrap() error { return e.error }

// exceeds returns the error of a request that exceeds a bound.
func (l *limits) exceeds(bound string, after time.Duration, format string, args ...any) error {
	l.refused(bound)
	err := fmt.Errorf("%w: %s", api.ErrTooMany, fmt.Sprintf(format, args...))
	return &tooMany{driver.Unreachable(driver.Unsent(err)), after}
}

// retryAfter sets the header of an answer to a request that exceeds a bound. 0 means that it exceeds none.
func retryAfter(w http.ResponseWriter, d time.Duration) {
	if d > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.Seconds())))
	}
}

// afterOf returns when to ask again after an error, or 0 if the error is of another kind.
func afterOf(err error) time.Duration {
	if e, ok := errors.AsType[*tooMany](err); ok {
		return e.after
	}
	return 0
}

// limits counts what a server bounds. Of each bound but the longest lease, a principal has at most a share, so that others are
// served beside it; and so have the waits for one name.
type limits struct {
	longest  time.Duration // lease
	maxWaits int
	maxRate  int // per second; 0 means no bound
	claims   int // of a principal; 0 if there are no principals

	refused func(bound string) // takes the bound that a request met

	mu    sync.Mutex // guards the fields below
	all   *use
	of    map[string]*use // by principal
	sweep known.Limit     // of the principals
	names map[string]int  // waits

	streams int // of the waits, those for events
}

// The bounds, as the measurements call them.
const (
	boundRate  = "rate"
	boundWaits = "waits"
	boundLists = "lists"
	boundLooks = "looks"
	boundCalls = "calls"
	boundName  = "name_waits" // of one name
	ofOne      = "principal_"

	boundClaims   = "claims"
	boundAlerts   = "alerts"
	boundRequests = "requests"
)

// bounds has all bounds.
var bounds = []string{
	boundRate, boundWaits, boundLists, boundLooks, boundCalls, boundName, ofOne + boundRate, ofOne + boundWaits, ofOne + boundLists,
	ofOne + boundLooks, ofOne + boundCalls, ofOne + boundClaims, ofOne + boundAlerts, ofOne + boundRequests,
}

// A use is what all clients, or those of a principal, use at present.
type use struct {
	waits  int
	tokens float64   // requests that may come now
	at     time.Time // when tokens was counted

	lists, looks, calls chan struct{} // have an element for each

	requests int // of a principal, under way
	heard    int // claims of a principal that its requests for alerts are about
}

// newUse returns a use with room for a part of each bound.
func newUse(part func(bound int) int) *use {
	room := func(bound int) chan struct{} { return make(chan struct{}, part(bound)) }
	return &use{lists: room(maxLists), looks: room(maxLooks), calls: room(maxCalls)}
}

// none reports whether nothing is in use.
func (u *use) none() bool {
	return u.requests+u.waits+u.heard+len(u.lists)+len(u.looks)+len(u.calls) == 0
}

// share returns the part of a bound that one principal or name may have.
func share(bound int) int { return bound * 3 / 4 }

// newLimits returns the limits of some options.
func newLimits(o *Options) (*limits, error) {
	l := &limits{
		longest: cmp.Or(o.MaxTTL, driver.MaxTTL), maxWaits: cmp.Or(o.MaxWaits, defaultMaxWaits), maxRate: o.MaxRate,
		all: newUse(func(bound int) int { return bound }), of: map[string]*use{}, names: map[string]int{},
	}
	if o.Authenticate != nil {
		l.maxRate, l.claims = cmp.Or(o.MaxRate, defaultMaxRate), cmp.Or(o.MaxClaims, defaultMaxClaims)
	}
	switch {
	case l.longest < unconfirmed || l.longest > driver.MaxTTL:
		return nil, fmt.Errorf("the longest lease is %v: it must be from %v to %v", l.longest, unconfirmed, driver.MaxTTL)
	case l.maxWaits < 2 || l.maxRate < 0 || l.maxRate == 1: // so that a share is at least 1
		return nil, fmt.Errorf("%d waits and %d requests per second: both must be at least 2", l.maxWaits, l.maxRate)
	case o.MaxClaims != 0 && o.Authenticate == nil:
		return nil, errors.New("a bound of claims is for each principal, and without an Authenticator there is none")
	case l.claims < 0:
		return nil, fmt.Errorf("%d claims of a principal: there must be at least 1", l.claims)
	}
	return l, nil
}

// useLocked returns the use of a caller's principal, or nil if the caller has none.
func (l *limits) useLocked(who *caller, now time.Time) *use {
	if who.Principal == nil {
		return nil
	}
	u := l.of[who.Name]
	if u == nil {
		if l.sweep.Reached(len(l.of)) {
			maps.DeleteFunc(l.of, func(_ string, u *use) bool { return u.none() && now.Sub(u.at) > time.Second })
			l.sweep.Swept(len(l.of))
		}
		u = newUse(share)
		l.of[who.Name] = u
	}
	return u
}

// serves counts a request of a principal, whatever it asks for, until end is called, or refuses it. A principal has at most as many
// at a time as requests may wait.
func (l *limits) serves(who *caller) (end func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := l.useLocked(who, time.Now())
	if mine == nil {
		return func() {}, nil
	}
	if mine.requests >= l.maxWaits {
		l.refused(ofOne + boundRequests)
		err := fmt.Errorf("%s already has %d requests under way at the lock service, and further ones need another", who.Name, l.maxWaits)
		return nil, &tooMany{driver.Unreachable(driver.Unsent(err)), soon}
	}
	mine.requests++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		mine.requests--
	}, nil
}

// request counts a request against the rate, or refuses it.
func (l *limits) request(who *caller) error {
	if l.maxRate == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.all.fill(now, l.maxRate)
	mine := l.useLocked(who, now)
	if mine != nil {
		mine.fill(now, share(l.maxRate))
	}
	switch {
	case mine != nil && mine.tokens < 1:
		return l.exceeds(ofOne+boundRate, soon, "%s asks more than %d times a second", who.Name, share(l.maxRate))
	case l.all.tokens < 1:
		return l.exceeds(boundRate, soon, "it is asked more than %d times a second", l.maxRate)
	}
	l.all.tokens--
	if mine != nil {
		mine.tokens--
	}
	return nil
}

// fill adds the tokens since the last time, up to those of a second.
func (u *use) fill(now time.Time, rate int) {
	u.tokens = min(float64(rate), u.tokens+float64(rate)*now.Sub(u.at).Seconds())
	u.at = now
}

// room returns an error if no further request may wait for a name. Without a name, the request waits for none.
func (l *limits) room(who *caller, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.roomLocked(l.useLocked(who, time.Now()), who, name, later)
}

func (l *limits) roomLocked(mine *use, who *caller, name string, after time.Duration) error {
	switch most := share(l.maxWaits); {
	case mine != nil && mine.waits >= most:
		return l.exceeds(ofOne+boundWaits, after, "%s already waits in %d requests", who.Name, most)
	case name != "" && l.names[name] >= most:
		return l.exceeds(boundName, after, "%d requests already wait for this name", most)
	case l.all.waits >= l.maxWaits:
		return l.exceeds(boundWaits, after, "%d requests already wait", l.maxWaits)
	}
	return nil
}

// wait counts a request that waits for a name, until end is called, or refuses it for a while.
func (l *limits) wait(who *caller, name string, after time.Duration) (end func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mine := l.useLocked(who, time.Now())
	if err := l.roomLocked(mine, who, name, after); err != nil {
		return nil, err
	}
	count := func(n int) {
		l.all.waits += n
		if mine != nil {
			mine.waits += n
		}
		if name == "" {
			return
		}
		if l.names[name] += n; l.names[name] == 0 {
			delete(l.names, name)
		}
	}
	count(1)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		count(-1)
	}, nil
}

// watch counts a watch, until end is called, or refuses it.
func (l *limits) watch(who *caller, name string) (end func(), err error) {
	if err := l.request(who); err != nil {
		return nil, err
	}
	return l.stream(who, name)
}

// stream counts a request for events, until end is called, or refuses it.
func (l *limits) stream(who *caller, name string) (end func(), err error) {
	over, err := l.wait(who, name, later)
	if err != nil {
		return nil, err
	}
	count := func(n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.streams += n
	}
	count(1)
	return func() {
		count(-1)
		over()
	}, nil
}

// hears counts a request for alerts about some claims, until end is called, or refuses it. A principal may ask for alerts about twice
// as many claims as it may have: a client opens its next request before the server notices the end of the last one.
func (l *limits) hears(who *caller, claims int) (end func(), err error) {
	over, err := l.stream(who, "")
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	mine := l.useLocked(who, time.Now())
	fits := mine == nil || mine.heard+claims <= 2*l.claims
	if mine != nil && fits {
		mine.heard += claims
	}
	l.mu.Unlock()
	if !fits {
		over()
		return nil, l.exceeds(ofOne+boundAlerts, later, "%s already has alerts about %d claims", who.Name, 2*l.claims)
	}
	return func() {
		over()
		if mine != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			mine.heard -= claims
		}
	}, nil
}

// open returns how many requests wait for a lock, and how many for events.
func (l *limits) open() (waits, streams int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.waits - l.streams, l.streams
}

// list counts a list of a prefix, until end is called, or refuses it.
func (l *limits) list(who *caller) (end func(), err error) {
	if err := l.request(who); err != nil {
		return nil, err
	}
	return l.lists(who, try)
}

// try takes room if there is some.
func try(room chan<- struct{}) bool {
	select {
	case room <- struct{}{}:
		return true
	default:
		return false
	}
}

// turn is list for Consul's clients, which take a refusal for the loss of their lock: it does not count against the rate, and waits for
// room while the request lasts. It refuses only what can neither be done now nor wait.
func (l *limits) turn(ctx context.Context, who *caller) (end func(), err error) {
	over, err := l.wait(who, "", soon)
	if err != nil {
		return l.lists(who, try)
	}
	defer over()
	return l.lists(who, during(ctx))
}

// during returns a function that waits for room while a context lasts.
func during(ctx context.Context) func(room chan<- struct{}) bool {
	return func(room chan<- struct{}) bool {
		select {
		case room <- struct{}{}:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// lists takes room for a list.
func (l *limits) lists(who *caller, take func(room chan<- struct{}) bool) (end func(), err error) {
	return l.roomFor(boundLists, "lists", func(u *use) chan struct{} { return u.lists }, who, take)
}

// look takes room to read the queue of one name, and waits for it while the request lasts. Others may have made the queue long.
func (l *limits) look(ctx context.Context, who *caller) (end func(), err error) {
	if err := l.request(who); err != nil {
		return nil, err
	}
	return l.roomFor(boundLooks, "looks at a queue", func(u *use) chan struct{} { return u.looks }, who, during(ctx))
}

// call takes room for a call of a batch.
func (l *limits) call(who *caller, take func(room chan<- struct{}) bool) (end func(), err error) {
	return l.roomFor(boundCalls, "calls of batches", func(u *use) chan struct{} { return u.calls }, who, take)
}

// roomFor takes room for what a bound is about, until end is called: first of what the caller's principal may have, and then of what
// all may have.
func (l *limits) roomFor(
	bound, what string, of func(*use) chan struct{}, who *caller, take func(room chan<- struct{}) bool,
) (end func(), err error) {
	l.mu.Lock()
	all := of(l.all)
	var mine chan struct{}
	if u := l.useLocked(who, time.Now()); u != nil {
		mine = of(u)
	}
	l.mu.Unlock()
	if mine != nil && !take(mine) {
		return nil, l.exceeds(ofOne+bound, soon, "%s already has %d %s", who.Name, cap(mine), what)
	}
	leave := func() {
		if mine != nil {
			<-mine
		}
	}
	if !take(all) {
		leave()
		return nil, l.exceeds(bound, soon, "it already makes %d %s", cap(all), what)
	}
	return func() {
		<-all
		leave()
	}, nil
}

// enters counts the Enter of a contract request. Without a ticket the claim is new, and will wait unless it only tries.
func (l *limits) enters(who *caller, c *api.Claim) error {
	if c.Ticket != 0 {
		return nil
	}
	if c.TTL > l.longest || c.Delay > l.longest {
		return invalid(fmt.Errorf("ttl_ns and delay_ns are at most %v here", l.longest))
	}
	if err := l.request(who); err != nil || c.Try {
		return err
	}
	return l.room(who, c.Name)
}

// takes counts a PUT that may wait for a while, until end is called, and returns how long it may. If its claim is in the queue
// and no further request may wait, that is not at all, and takes also returns when to come again.
func (l *limits) takes(who *caller, name string, h *handle, want time.Duration) (end func(), wait, again time.Duration, err error) {
	if h.ticket == 0 {
		if err := l.request(who); err != nil {
			return nil, 0, 0, err
		}
	}
	if want == 0 {
		return func() {}, 0, 0, nil
	}
	end, err = l.wait(who, name, later)
	if err != nil && h.ticket != 0 {
		return func() {}, 0, soon, nil
	}
	return end, want, 0, err
}

// shorten bounds the lease of an existing claim. To refuse its renewal would be to take its lock.
func (l *limits) shorten(c *driver.Claim) *driver.Claim {
	c.TTL, c.Wait, c.Delay = min(c.TTL, l.longest), min(c.Wait, l.longest), min(c.Delay, l.longest)
	return c
}

// promises returns what the store promises, within the limits of the server.
func (s *Server) promises() driver.Traits {
	t := s.d.Traits()
	t.MaxTTL = min(t.MaxTTL, s.limits.longest)
	return t
}
