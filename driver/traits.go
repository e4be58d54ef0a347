package driver

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Traits tell what a store can promise, as found out from the live store where it can be asked.
type Traits struct {
	Store       string // what it is, in a word: "redis"
	Server      string // product and version, as the server tells them: "Redis 7.0.15"; "" if it does not
	Ordered     bool   // claims hold in the order in which they entered
	Shared      bool   // weights below the capacity: readers
	Permits     bool   // capacities other than All
	Delay       bool   // a lease that ran out while it held keeps the lock from others for [Claim.Delay]
	InSession   bool   // a claim lives in its client's session: no other client can renew it, and all end with the session
	OwnClient   bool   // a claim belongs to its client only: no other client can renew it or take it out, and closing the client ends it
	FullWait    bool   // a claim that waits has the lease of one that holds, its TTL
	Amends      bool   // a claim that holds can be changed where it stands; see [Amendment]
	ShortRecord bool   // a record may be replaced by a few words, unless it is short and of plain characters
	Counts      bool   // a name can have a count of permits of its own, for claims of capacity 0; see [Claim.Uncounted]
	Asks        bool   // a holder can be asked for its lock: see [BreakRequest.Ask]
	Fencing     Grade  // what a ticket is worth
	Restart     bool   // claims survive a restart of the store
	Failover    bool   // claims survive a failover of the store
	Clock       string // who judges expiry: "process", "host", "server", "session"
	Wake        string // how a waiter learns that it holds: "push", "poll"

	MinTTL      time.Duration // shortest lease
	MaxTTL      time.Duration // longest lease
	Granularity time.Duration // how much earlier than asked the store may end a lease
	Session     time.Duration // after which the claims of a process that died end, whatever their leases are; 0 if with their leases
	Notes       []string      // what the person who runs the store should know, a sentence each
	Warnings    []Warning     // what is wrong with how the store is set up
}

// A Warning says what can go wrong because of how a store is set up, to the person who runs it.
type Warning struct {
	Text  string // a sentence
	Mend  string // what to set, in the words of the store's own manual: "appendfsync always"; "" if no setting mends it
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
