package driver

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Traits are the promises of a store. Where possible, a driver asks the live store for them.
type Traits struct {
	Store       string // the kind of store, in a word: "redis"
	Server      string // product and version, as the server reports them: "Redis 7.0.15"; "" if it does not
	Ordered     bool   // claims hold in the order in which they entered
	Shared      bool   // weights below the capacity: readers
	Permits     bool   // capacities other than All
	Delay       bool   // a lease that ran out while it held keeps the lock from others for [Claim.Delay]
	InSession   bool   // a claim lives in its client's session: no other client can renew it, and all end with the session
	OwnClient   bool   // only a claim's client can renew or remove it, and closing the client ends it
	FullWait    bool   // a waiting claim has the same lease as a holding one, its TTL
	Amends      bool   // a holding claim can be changed in its place; see [Amendment]
	ShortRecord bool   // a record may be replaced by a few words, unless it is short and of plain characters
	Asks        bool   // a holder can be asked for its lock: see [BreakRequest.Ask]
	HearsBreak  bool   // the client of a claim that somebody breaks is alerted at once; see [Alerter]
	Fencing     Grade  // how far a ticket can be trusted as a fencing token
	Restart     bool   // claims survive a restart of the store
	Failover    bool   // claims survive a failover of the store
	Clock       string // the clock that decides when a lease ends: "process", "host", "server", "session"
	Wake        string // how a waiter learns that it holds: "push", "poll"

	MinTTL      time.Duration // shortest lease
	MaxTTL      time.Duration // longest lease
	Granularity time.Duration // how much earlier than asked the store may end a lease
	Session     time.Duration // when a dead process's claims end, whatever their leases; 0 if they end with their leases
	Notes       []string      // facts for the person who runs the store, a sentence each
	Warnings    []Warning     // problems of the store's setup
}

// A Warning informs the person who runs a store of a danger in its setup.
type Warning struct {
	Text  string // a sentence
	Mend  string // the setting that helps, in the words of the store's own manual: "appendfsync always"; "" if no setting helps
	Unfit bool   // two can hold one lock though nothing fails
}

func (w Warning) String() string {
	if w.Mend == "" {
		return w.Text
	}
	return strings.TrimSuffix(w.Text, ".") + ". Better: " + w.Mend + "."
}

// Remarks returns the warnings and then the notes, as text.
func (t Traits) Remarks() []string {
	all := make([]string, 0, len(t.Warnings)+len(t.Notes))
	for _, w := range t.Warnings {
		all = append(all, w.String())
	}
	return append(all, t.Notes...)
}

// Note adds a note, unless it is there.
func (t *Traits) Note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(t.Notes, text) {
		t.Notes = append(slices.Clip(t.Notes), text)
	}
}

// Warn adds a warning, unless it is there.
func (t *Traits) Warn(mend, format string, args ...any) {
	t.warn(Warning{Text: fmt.Sprintf(format, args...), Mend: mend})
}

// Unfit adds the warning that two can hold one lock though nothing fails, unless it is there.
func (t *Traits) Unfit(mend, format string, args ...any) {
	t.warn(Warning{Text: fmt.Sprintf(format, args...), Mend: mend, Unfit: true})
}

func (t *Traits) warn(w Warning) {
	if !slices.Contains(t.Warnings, w) {
		t.Warnings = append(slices.Clip(t.Warnings), w)
	}
}

// MaxTTL is the longest lease that any store gives.
const MaxTTL = 24 * time.Hour

// A Grade says under which faults tickets of one name keep rising.
type Grade int

const (
	NoFencing      Grade = iota // no tickets that a resource could compare
	ClockFencing                // while the store's clock does not run back
	DurableFencing              // through every fault but a restore from an old copy
)

func (g Grade) String() string {
	return [...]string{"none", "while the store's clock does not run back", "through restart and failover"}[g]
}
