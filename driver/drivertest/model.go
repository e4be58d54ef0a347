package drivertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// Model runs random operations on a store and on [driver.Queue], and fails at the first answer that differs. It needs an
// ordered store that takes all weights and capacities; where the store can list, the queues are compared after each
// operation, and claims run out too. The same seed gives the same operations; the failure names it.
func Model(t testing.TB, s Store, seed uint64, steps int) {
	t.Helper()
	m := &model{
		TB: t, seed: seed, rand: mathrand.New(mathrand.NewPCG(seed, 0)), tag: rand.Text(),
		queues: map[string]*driver.Queue{}, tickets: map[string]map[int64]int64{},
	}
	m.ctx, m.cancel = context.WithTimeout(t.Context(), 5*time.Minute)
	a, b := s.Open(t), s.Open(t)
	traits := a.Traits()
	a, b = bind(&traits, a, b)
	m.drivers = []driver.Driver{a, b}
	m.delays = traits.Delay && traits.Clock != "session"
	m.amends, m.asks = traits.Amends, traits.Asks
	m.brief, m.slack = max(traits.MinTTL, 20*time.Millisecond), s.Slack
	if s.Slack == 0 {
		m.slack = time.Second
	}
	m.lister, _ = m.drivers[1].(driver.Lister)
	m.breaker, _ = m.drivers[0].(driver.Breaker)
	defer m.leaveAll()
	for range 3 {
		name := fmt.Sprintf("drivertest/model/%s/%d", m.tag, len(m.names))
		m.names = append(m.names, name)
		m.queues[name], m.tickets[name] = &driver.Queue{}, map[int64]int64{}
	}
	for i := 0; i < steps && !t.Failed(); i++ {
		m.step()
		for _, name := range m.names {
			m.compareList(name)
		}
	}
}

// A model is a store beside its reference. In the reference, time moves only in the steps that let a claim run out.
type model struct {
	testing.TB
	seed    uint64
	rand    *mathrand.Rand
	tag     string
	ctx     context.Context
	cancel  context.CancelFunc
	drivers []driver.Driver
	lister  driver.Lister
	breaker driver.Breaker
	brief   time.Duration // the lease of a claim that must run out
	asks    bool          // holders can be asked
	delays  bool          // listings show claims in their lock-delay
	amends  bool
	slack   time.Duration

	now     int64
	names   []string
	queues  map[string]*driver.Queue
	tickets map[string]map[int64]int64 // the store's tickets, by the tickets of the reference
	claims  []*driver.Claim            // all claims that have asked to enter

	amendments int // asked for so far

	log []string
}

const modelLease = time.Hour

func (m *model) leaveAll() {
	for _, c := range m.claims {
		_ = m.drivers[0].Leave(m.ctx, &driver.Release{Claim: c}) // some claims may be left; most are gone
	}
	m.cancel()
	for _, d := range m.drivers {
		d.Close()
	}
}

// differ ends the run, and lists the operations in their order.
func (m *model) differ(format string, args ...any) {
	m.Helper()
	for _, line := range m.log[max(0, len(m.log)-12):] {
		m.Log(line)
	}
	m.Fatalf("seed %d, operation %d: %s", m.seed, len(m.log), fmt.Sprintf(format, args...))
}

func (m *model) did(format string, args ...any) { m.log = append(m.log, fmt.Sprintf(format, args...)) }

func (m *model) driver() driver.Driver { return m.drivers[m.rand.IntN(len(m.drivers))] }

func pick[T any](m *model, list ...T) T { return list[m.rand.IntN(len(list))] }

func (m *model) step() {
	switch n := m.rand.IntN(100); {
	case n < 30 || len(m.claims) == 0:
		m.enter(m.fresh())
	case n < 50:
		m.enter(m.known())
	case n < 60:
		m.renew()
	case n < 90:
		m.leave(m.known(), 0)
	case n < 91:
		m.leave(m.known(), time.Hour)
	case n < 93:
		m.reclaim()
	case n < 96:
		m.breaks()
	default:
		m.expire()
	}
}

// fresh returns a claim that has not asked to enter before.
func (m *model) fresh() *driver.Claim {
	capacity := pick(m, 2, 3, driver.All, driver.All, driver.All)
	weights := []int64{1, 2, capacity}
	c := &driver.Claim{
		Name: pick(m, m.names...), ID: fmt.Sprintf("%s-%d", m.tag, len(m.claims)), Client: pick(m, "x", "y"),
		Weight: pick(m, weights...), Capacity: capacity, TTL: modelLease, Wait: modelLease,
		Try: m.rand.IntN(4) == 0, Record: fmt.Sprint("record ", len(m.claims)),
	}
	if m.rand.IntN(5) == 0 {
		c.Owner, c.Reclaim = pick(m, "one", "two"), m.rand.IntN(2) == 0
	}
	m.claims = append(m.claims, c)
	return c
}

// reclaim lets a job enter one or two claims, most of which leave and are kept, and then lets a later run of the job enter.
func (m *model) reclaim() {
	var kept *driver.Claim
	for range 1 + m.rand.IntN(2) {
		c := m.fresh()
		if kept != nil {
			c.Name, c.Capacity, c.Weight = kept.Name, kept.Capacity, kept.Weight
		}
		c.Owner, c.Reclaim, kept = "job", false, c
		m.enter(c)
		if m.rand.IntN(3) > 0 {
			m.leave(c, time.Hour)
		}
	}
	c := m.fresh()
	c.Name, c.Capacity, c.Owner, c.Reclaim = kept.Name, kept.Capacity, "job", true
	c.Weight = min(c.Weight, c.Capacity)
	m.enter(c)
}

// known returns a claim that has asked to enter before, mostly one of the latest.
func (m *model) known() *driver.Claim {
	from := 0
	if m.rand.IntN(5) > 0 {
		from = max(0, len(m.claims)-8)
	}
	return pick(m, m.claims[from:]...)
}

func (m *model) enter(c *driver.Claim) {
	claim := *c
	got, err := m.driver().Enter(m.ctx, &claim)
	q := m.queues[c.Name]
	want, wantErr := q.Enter(m.now, 0, &claim)
	q.Wake(m.now)
	m.did("enter %s in %s, %d of %d, ticket %d, try %v, owner %q %v: %+v, %v", c.ID, c.Name, c.Weight, c.Capacity,
		c.Ticket, c.Try, c.Owner, c.Reclaim, got, err)
	m.compareError("enter", err, wantErr)
	if err != nil {
		return
	}
	if got.Holds != want.Holds || got.Ahead != want.Ahead {
		m.differ("enter = %+v; want %+v", got, want)
	}
	m.compareTicket(c.Name, got.Ticket, want.Ticket)
	if b := got.Blocker; b.Ticket != 0 {
		m.compareTicket(c.Name, b.Ticket, want.Blocker.Ticket)
		if w := want.Blocker; b.Record != w.Record || b.Weight != w.Weight || b.Holds != w.Holds || b.Left != w.Left {
			m.differ("the blocker = %+v; want %+v", b, w)
		}
	}
	if got.Ticket != 0 && m.rand.IntN(2) == 0 {
		c.Ticket = got.Ticket
	}
}

func (m *model) renew() {
	var cs []*driver.Claim
	for range m.rand.IntN(5) {
		cs = append(cs, m.known())
	}
	for i, c := range cs {
		// An amendment may let others hold, and within a name it matters which claim is renewed first.
		alone := !slices.ContainsFunc(cs[:i], func(o *driver.Claim) bool { return o.Name == c.Name }) &&
			!slices.ContainsFunc(cs[i+1:], func(o *driver.Claim) bool { return o.Name == c.Name })
		if m.amends && alone && m.rand.IntN(2) == 0 {
			cs[i] = m.amended(c)
		}
	}
	got := m.driver().Renew(m.ctx, cs)
	m.did("renew %d claims: %+v", len(cs), got)
	if len(got) != len(cs) {
		m.differ("renew of %d claims has %d answers", len(cs), len(got))
	}
	for i, c := range cs {
		q := m.queues[c.Name]
		_, wantErr := q.Renew(m.now, c)
		q.Wake(m.now)
		m.compareError("renew "+c.ID, got[i].Err, wantErr)
		if want := q.Asks(c); wantErr == nil && got[i].Asks != want {
			m.differ("renew %s = %+v; want %d askings", c.ID, got[i], want)
		}
	}
}

// amended returns a claim with an amendment: a smaller weight or another record, now and then one that the store must
// refuse.
func (m *model) amended(c *driver.Claim) *driver.Claim {
	m.amendments++
	claim := *c
	claim.Amend = &driver.Amendment{Weight: pick(m, 0, 1, claim.Weight), Record: pick(m, "", fmt.Sprint("amendment ", m.amendments))}
	switch m.rand.IntN(8) {
	case 0:
		claim.Amend.Weight = claim.Weight + 1
	case 1:
		claim.Record = "another"
	}
	m.did("amend %s of weight %d with record %q: %+v", c.ID, c.Weight, claim.Record, *claim.Amend)
	return &claim
}

func (m *model) leave(c *driver.Claim, keep time.Duration) {
	l := &driver.Release{Claim: c, Keep: keep}
	err := m.driver().Leave(m.ctx, l)
	q := m.queues[c.Name]
	wantErr := q.Leave(m.now, l)
	q.Wake(m.now)
	m.did("leave %s, keep %v: %v", c.ID, keep, err)
	m.compareError("leave", err, wantErr)
}

func (m *model) breaks() {
	if m.breaker == nil {
		return
	}
	name, ticket := pick(m, m.names...), int64(0)
	q := m.queues[name]
	if len(q.Entries) > 0 && m.rand.IntN(2) == 0 {
		ticket = pick(m, q.Entries...).Ticket
	}
	verb, breaks := "break", q.Break
	if m.asks && m.rand.IntN(2) == 0 {
		verb, breaks = "ask", q.Ask
	}
	got, err := m.breaker.Break(m.ctx, &driver.BreakRequest{Name: name, Ticket: m.tickets[name][ticket], Ask: verb == "ask"})
	want, wantErr := breaks(m.now, ticket)
	q.Wake(m.now)
	m.did("%s ticket %d of %s: %+v, %v", verb, ticket, name, got, err)
	m.compareError(verb, err, wantErr)
	if err == nil {
		m.compareStanding(name, got, want)
	}
}

// expire enters a claim that runs out, and waits until the store has dropped it. Its lock-delay counts if it held.
func (m *model) expire() {
	if m.lister == nil {
		return
	}
	c := m.fresh()
	c.TTL, c.Wait = m.brief, m.brief
	if m.delays {
		c.Delay = pick(m, 0, m.brief)
	}
	m.enter(c)
	q := m.queues[c.Name]
	m.now += (c.TTL + c.Delay).Microseconds()
	q.Wake(m.now)
	m.did("expire %s", c.ID)
	deadline := time.Now().Add(c.TTL + c.Delay + m.slack)
	for len(m.list(c.Name)) != len(q.List(m.now)) {
		if time.Now().After(deadline) || !poll(m.ctx) {
			m.differ("the list is %+v after the lease of %s ended; want %+v", m.list(c.Name), c.ID, q.List(m.now))
		}
	}
	c.TTL, c.Wait, c.Delay = modelLease, modelLease, 0 // if it enters again
}

func (m *model) list(name string) []driver.ClaimInfo {
	list, err := m.lister.List(m.ctx, &driver.Query{Name: name})
	if err != nil {
		m.differ("list: %v", err)
	}
	if len(list) == 0 {
		return nil
	}
	if want := m.queues[name].Capacity; len(list) != 1 || list[0].Name != name || list[0].Capacity != want {
		m.differ("list = %+v; want %q with capacity %d", list, name, want)
	}
	return list[0].Claims
}

func (m *model) compareList(name string) {
	if m.lister == nil {
		return
	}
	got, want := m.list(name), m.queues[name].List(m.now)
	if len(got) != len(want) {
		m.differ("list = %+v; want %+v", got, want)
	}
	for i := range got {
		m.compareStanding(name, got[i], want[i])
	}
}

func (m *model) compareStanding(name string, got, want driver.ClaimInfo) {
	m.compareTicket(name, got.Ticket, want.Ticket)
	if got.Weight != want.Weight || got.Holds != want.Holds || got.Left != want.Left || got.Record != want.Record {
		m.differ("a claim is listed as %+v; want %+v", got, want)
	}
}

// compareTicket learns the store's ticket for a ticket of the reference, which must be above all earlier ones.
func (m *model) compareTicket(name string, got, want int64) {
	known := m.tickets[name]
	is, met := known[want]
	switch {
	case want == 0 && got != 0:
		m.differ("the ticket is %d; want 0", got)
	case met && got != is:
		m.differ("the ticket is %d; want %d, as before", got, is)
	case met || want == 0:
		return
	}
	for ticket, of := range known {
		if got <= of {
			m.differ("the ticket is %d; want above %d, the store's for ticket %d of the reference, now %d", got, of,
				ticket, want)
		}
	}
	known[want] = got
}

func (m *model) compareError(verb string, got, want error) {
	if verdict(got) != verdict(want) {
		m.differ("%s = %v; want %v", verb, got, want)
	}
}

// verdict returns an error's meaning for a claim. Each store refuses an impossible amendment in its own words.
func verdict(err error) any {
	if capacity, ok := errors.AsType[*driver.CapacityError](err); ok {
		return *capacity
	}
	if record, ok := errors.AsType[*driver.RecordError](err); ok {
		return *record
	}
	switch {
	case err == nil:
		return "nil"
	case errors.Is(err, driver.ErrGone):
		return "gone"
	case errors.Is(err, driver.ErrUnsupported):
		return "unsupported"
	}
	return driver.OutcomeOf(err)
}
