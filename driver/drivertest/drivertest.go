// Package drivertest holds a driver to the contract of package driver.
//
// The contract is a table of cases, each with the sentence that it checks; [Run] runs them all against a real store.
// [Model] runs random operations against a store and against [driver.Queue], and compares the two after each step.
//
// If a driver declares in its [driver.Traits] that it lacks a power, the cases do not ask for this power. The driver must
// then answer [driver.ErrUnsupported] instead of approximating.
package drivertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stilelock/stile/driver"
)

// A Store is the store under test.
type Store struct {
	// Open connects one more client to the store, always to the same one. The suite closes it.
	Open func(t testing.TB) driver.Driver

	// Lease is a short lease that the cases let run out. It must be long enough for a few calls; 0 means the larger of
	// MinTTL and 600 ms.
	Lease time.Duration

	// Slack is how late the store may notice the end of a lease; 0 means one second.
	Slack time.Duration

	// Wake is how long after a claim left its successor may learn that it holds; 0 means 500 ms if the store pushes, and one
	// second if it is polled.
	Wake time.Duration

	// Detour connects a client whose requests can be held up on their way; nil means a client whose whole calls are made late.
	Detour func(t testing.TB) *Detour

	// Halfway says that others may see a claim that has half entered or half left, such as a refused try or a claim whose Leave
	// lost its answer: then Concurrent compares no places. If the store has no order either, a claim that left may block the
	// next one for a moment, such as on a minority of the servers: the next claim may wait as long as Wake.
	Halfway bool

	// OneCase says that names which differ only in case are one lock, as in other programs that use the store.
	OneCase bool

	// MaxRecord is the size in bytes of the largest record that fits; 0 means [driver.MaxRecord].
	MaxRecord int

	// Fresh makes a store that nobody has used, such as one under a prefix of its own, and returns a function that connects a
	// client to it. The suite closes the clients. Nil means that there is only one store, and the ids of stores are not
	// compared.
	Fresh func(t testing.TB) (open func() driver.Driver)

	// Taken reports whether a lock is taken for another program, which knows only the format that it shares with the driver.
	// Nil means that there is no such program.
	Taken func(t testing.TB, name string) bool

	// Stall opens a client that can be made to stand still in the middle of a request. The suite closes it. Nil means that
	// there is no such client.
	Stall func(t testing.TB) *Stalled

	// Mishaps make stores that nobody else uses. The key says what happens to the store, such as "the file is removed". Nil
	// means that nothing can happen to the store.
	Mishaps map[string]func(t testing.TB) *Mishap

	// Jumps are the jumps of wall clocks, such as "summer time begins". Nil means that clients use no wall clock.
	Jumps map[string]func(t testing.TB) *Jump

	// Losses are more ways to lose an answer than Detour has, such as with a pooler's connection to the server. The key says
	// what happens. Nil means that there are none.
	Losses map[string]func(t testing.TB) *Loss

	// Transactions makes a database in which transactions lock names. Nil means that transactions lock nothing.
	Transactions func(t testing.TB) *Transactions

	// Full makes a store that nobody else uses and that can be full. Nil means that the store never reports that it is full.
	Full func(t testing.TB) *Full

	// Cleaning makes a store that nobody else uses and that the suite can clean. Nil means that the store has nothing to clean,
	// or cleans by itself.
	Cleaning func(t testing.TB) *Cleaning

	// Work makes a store that nobody else uses and that counts its work. Nil means that the traffic of a Detour is
	// counted, if the Detour counts bytes.
	Work func(t testing.TB) *Work

	// Idle opens a client for which much idle time passes soon. Nil means that the suite waits a while with a client of Open.
	Idle func(t testing.TB) *Idle

	// Behind makes stores of several servers, one of which can be cut off from the others. The key names the kind of store. Nil
	// means that no server answers alone.
	Behind map[string]func(t testing.TB) *Behind

	// Several makes a store of several servers that nobody else uses. Nil means that the store is on one.
	Several func(t testing.TB) *Several

	// Edge connects clients to stores that nobody else uses and whose counters, at least for this name, stand just below an
	// edge. The key names the edge, such as 2^31. The suite closes the clients. Nil means that the store counts nothing.
	Edge map[string]func(t testing.TB, name string) driver.Driver

	// Foreign makes other programs, by their names, that lock a name and know only the format that they share with the driver.
	// Nil means that there are none.
	Foreign map[string]func(t testing.TB, name string) *Foreign

	// Failover makes a store where one server takes over from another. Nil means that there is none, or that clients do not
	// notice.
	Failover func(t testing.TB) *Failover

	// Succession makes a store of several servers, one of which leads. Nil means that there is none, or that the suite cannot
	// let a replaced leader go on.
	Succession func(t testing.TB) *Succession

	// Lacking makes stores whose user lacks a right that a client needs, and returns a function that opens a client of this
	// user. The key names the right, such as "the right to write". Nil means that every user of the store has all rights.
	Lacking map[string]func(t testing.TB) (open func() (driver.Driver, error))
}

// A Case checks one sentence of the contract.
type Case struct {
	Name     string
	Sentence string // cited when the case fails
	needs    power
	check    func(r *run)
}

// A power is something that a driver can lack, by its traits.
type power int

const (
	ordered power = 1 << iota
	shared
	permits
	fencing
	delay
	amends
)

// powers are the traits that show whether a driver has a power.
var powers = map[power]driver.Trait{
	ordered: driver.TraitOrder, shared: driver.TraitReaders, permits: driver.TraitPermits, fencing: driver.TraitFencing,
	delay: driver.TraitLockDelay, amends: driver.TraitAmend,
}

// Powers returns the traits that cases of the contract need. A case is left out if the driver lacks the trait that it needs.
func Powers() []driver.Trait { return slices.Sorted(maps.Values(powers)) }

// Cases returns the contract.
func Cases() []Case {
	var all []Case
	for _, part := range [][]Case{
		hearCases, // first, since one of them leaves a client idle for long while the others run
		enterCases, lockCases, leaveCases, leaseCases, clockCases, delayCases, awaitCases, nameCases, observerCases, askCases, clientCases,
		endedCases, lateCases, lostCases, handoverCases, amendCases, stallCases, identityCases, transactionCases, mishapCases, fullCases, cleanCases,
		workCases, idleCases, anewCases, atOnceCases,
		behindCases, edgeCases, foreignCases, oneDownCases, stressCases,
		outageCases, failoverCases, successionCases, rightsCases,
	} {
		all = append(all, part...)
	}
	return all
}

// Run checks every case against the store, in parallel, each on a name of its own.
func Run(t *testing.T, s Store) {
	a, b := s.Open(t), s.Open(t)
	t.Cleanup(func() {
		a.Close()
		b.Close()
	})
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, s, a, b, c)
			t.Cleanup(func() { r.cancel() })
			r.inTurns(t, c)
		})
	}
}

// longest is how long a case may take. Some cases make a thousand calls, for which a busy machine needs a minute. The leases
// of [run.claim] are longer.
const longest = 100 * time.Second

// check runs one case with two clients of the store.
func check(t testing.TB, s Store, a, b driver.Driver, c Case) {
	r := newRun(t, s, a, b, c)
	defer func() { r.cancel() }()
	r.does(c)
}

// does runs a case, if the driver has the power that the case needs.
func (r *run) does(c Case) {
	if r.declared(c.needs) {
		c.check(r)
	}
}

func newRun(t testing.TB, s Store, a, b driver.Driver, c Case) *run {
	traits := a.Traits()
	a, b = bind(&traits, a, b)
	r := &run{TB: t, store: s, traits: traits, sentence: c.Sentence, a: a, b: b,
		name: "drivertest/" + c.Name + "/" + rand.Text(), cancel: func() {}}
	r.store.Lease = max(r.store.Lease, r.traits.MinTTL)
	if s.Lease == 0 {
		r.store.Lease = max(600*time.Millisecond, r.traits.MinTTL)
	}
	if s.Slack == 0 {
		r.store.Slack = time.Second
	}
	if s.Wake == 0 {
		r.store.Wake = time.Second
		if r.traits.Wake == "push" {
			r.store.Wake = 500 * time.Millisecond
		}
	}
	r.anewTime()
	return r
}

// anewTime restarts the time limit of the case.
func (r *run) anewTime() {
	r.cancel()
	r.ctx, r.cancel = context.WithTimeout(r.Context(), longest)
}

// A run is one case on one name. Its methods fail the case with the sentence of the contract.
type run struct {
	testing.TB
	store    Store
	traits   driver.Traits
	sentence string
	ctx      context.Context
	cancel   context.CancelFunc
	a, b     driver.Driver // two clients
	name     string
	paced    time.Duration // the lease of the case; 0 means that the machine's slowness was not measured
	giveWay  func()        // lets other tests run, and returns when it is this one's turn again; nil means that there are none
}

func (r *run) Errorf(format string, args ...any) {
	r.Helper()
	r.TB.Errorf("%s\n\tthe contract: %s", fmt.Sprintf(format, args...), r.sentence)
}

func (r *run) Fatalf(format string, args ...any) {
	r.Helper()
	r.TB.Fatalf("%s\n\tthe contract: %s", fmt.Sprintf(format, args...), r.sentence)
}

// declared reports whether the driver has the power that a case needs. A driver must refuse a call that needs a power which
// it lacks.
func (r *run) declared(needs power) bool {
	lacks := needs
	for p, trait := range powers {
		if len(r.traits.Lacks(trait)) == 0 {
			lacks &^= p
		}
	}
	if lacks&shared != 0 {
		r.refused(r.shared())
	}
	if lacks&permits != 0 {
		r.refused(r.permit(1, 2))
	}
	if lacks&delay != 0 {
		c := r.claim()
		c.Delay = time.Second
		r.refused(c)
	}
	if lacks&amends != 0 {
		r.unamended()
	}
	return lacks == 0
}

func (r *run) refused(c *driver.Claim) {
	r.Helper()
	if _, err := r.a.Enter(r.ctx, c); !errors.Is(err, driver.ErrUnsupported) {
		r.Errorf("enter weight %d of %d with lock-delay %v = %v; want ErrUnsupported, as the traits lack it",
			c.Weight, c.Capacity, c.Delay, err)
	}
}
