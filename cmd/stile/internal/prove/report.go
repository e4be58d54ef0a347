package prove

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/histogram"
	"github.com/stilelock/stile/internal/history"
)

// A Verdict is the outcome of a run.
type Verdict string

// The verdicts.
const (
	Passed       Verdict = "passed"       // every kind of fault hit, and nothing was found
	Failed       Verdict = "failed"       // a violation was found
	Inconclusive Verdict = "inconclusive" // nothing was found, but the run tested too little
)

// A Report has the findings of a run.
type Report struct {
	Verdict  Verdict
	Findings []string // the violations
	Why      []string // the reasons why the run is inconclusive
	Untested []string // the parts that were not tested, with the reasons

	Begun     time.Time
	Seed      uint64
	Workers   int
	Traits    driver.Traits
	TTL, For  time.Duration
	Faults    []*Fault
	Names     []Name
	Away      []Away
	Control   Writes // to the file without a guard
	Guarded   Writes // to the file with a guard; none if the store gives no tokens
	Refused   int    // writes that the guard refused
	tokens    bool   // the store's tokens can be compared
	toldAway  sync.Mutex
	late      []string
	begin     time.Duration // when the run began, on the clock of the holds
	took      time.Duration
	holds     []*held
	violation time.Duration // when the first two held at once; 0 if none did
}

// A Name has the findings about one name.
type Name struct {
	Name        string
	Holds       int
	Waits       histogram.Histogram
	HandOvers   histogram.Histogram // from the unlock in one process until a waiting process holds
	First, Last int64               // tokens
}

// An Away is a time in which the store did not answer.
type Away struct {
	Begin, End time.Duration
	Err        string
}

// Writes are how often a file was written, and how many of the writes were lost.
type Writes struct{ Count, Lost int64 }

// promised notes the store's promises.
func (o *Report) promised(t driver.Traits, ttl, during time.Duration) {
	o.Traits, o.TTL, o.For, o.tokens = t, ttl, during, t.Fencing != driver.NoFencing
	o.untested("faults of the store's own servers: restart, failover, partition, full memory or disk, and clocks that are set")
	o.untested("clients on several machines: all ran on this one, by one clock")
	if !o.tokens {
		o.untested("tokens, and a file that refuses late writes: the store gives no tokens that a resource could compare")
	}
	if t.OwnClient {
		o.untested("that others hold after a client stands still: in this store it keeps its locks while its connection stands")
	}
	if !t.Shared {
		o.untested("readers: the store has none")
	}
	if !t.Permits {
		o.untested("permits: the store has none")
	}
}

func (o *Report) untested(text string) { o.Untested = append(o.Untested, text) }

func (o *Report) because(format string, args ...any) {
	o.Why = append(o.Why, fmt.Sprintf(format, args...))
}

// away notes that the store has not answered for a while; a later note with the same begin replaces the earlier one.
func (o *Report) away(begin, end time.Duration, err error) {
	o.toldAway.Lock()
	defer o.toldAway.Unlock()
	a := Away{begin - o.begin, end - o.begin, err.Error()}
	if n := len(o.Away); n > 0 && o.Away[n-1].Begin == a.Begin {
		o.Away[n-1] = a
		return
	}
	o.Away = append(o.Away, a)
}

// capacities returns the capacities of the names.
func (o *Report) capacities() map[string]int64 {
	m := map[string]int64{mutexName: driver.All, readersName: driver.All, dataName: driver.All}
	if o.Traits.Permits {
		m[permitsName] = permits
	}
	return m
}

// fromRun checks the beliefs of the workers.
func (o *Report) fromRun(r *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o.holds, o.Refused = r.holds, r.refused
	var holds []*history.Hold
	for _, h := range r.holds {
		h.Begin, h.End = h.Begin-o.begin, h.End-o.begin
		if h.freed != 0 {
			h.freed -= o.begin
		}
		holds = append(holds, &h.Hold)
	}
	for _, f := range o.Faults {
		f.Begin, f.End = f.Begin-o.begin, f.End-o.begin
	}
	o.count()
	o.safety(holds)
	o.files(r)
	for _, text := range r.errors {
		o.late = append(o.late, "an error that no fault explains: "+text)
	}
	if len(o.Away) == 0 {
		o.Findings = append(o.Findings, o.late...)
	} else {
		for _, a := range o.Away {
			o.because("the store did not answer from %v to %v: %s", rounded(a.Begin), rounded(a.End), a.Err)
		}
		o.Why = append(o.Why, o.late...)
	}
	o.hits()
	switch {
	case len(o.Findings) > 0:
		o.Verdict = Failed
	case len(o.Why) > 0:
		o.Verdict = Inconclusive
	default:
		o.Verdict = Passed
	}
}

// ended notes that somebody ended the run.
func (o *Report) ended(cause error) {
	if cause != nil {
		o.because("the run was ended: %v", cause)
	}
}

func rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(10 * time.Millisecond)
}

// count counts the holds of each name, and collects the waits for them.
func (o *Report) count() {
	for _, name := range []string{mutexName, readersName, permitsName, dataName} {
		if _, known := o.capacities()[name]; !known {
			continue
		}
		n := Name{Name: name}
		var last *held
		for _, h := range o.sorted(name) {
			n.Holds++
			n.Waits.Add(h.waited)
			if n.First == 0 {
				n.First = h.Token
			}
			n.Last = h.Token
			if last != nil && last.freed != 0 && last.process != h.process && last.Weight == driver.All && h.Weight == driver.All &&
				h.Begin-h.waited < last.freed && h.Begin > last.freed {
				n.HandOvers.Add(h.Begin - last.freed)
			}
			last = h
		}
		if o.Names = append(o.Names, n); n.Holds == 0 {
			o.because("nobody ever held the name %s", name)
		}
	}
}

// sorted returns the holds of a name in the order in which they began.
func (o *Report) sorted(name string) (list []*held) {
	for _, h := range o.holds {
		if h.Name == name {
			list = append(list, h)
		}
	}
	slices.SortStableFunc(list, func(a, b *held) int { return int(a.Begin - b.Begin) })
	return list
}

// shown is how many findings of one kind are reported in full.
const shown = 3

// safety finds holds that overlap, and tokens that fell.
func (o *Report) safety(holds []*history.Hold) {
	o.add(history.Overlaps(holds, o.capacities()))
	switch {
	case !o.tokens:
	case len(o.Away) > 0 && !o.Traits.Restart:
		o.untested("whether tokens rise: the store went away meanwhile, and promises nothing for that")
	default:
		o.add(history.Falls(holds, o.capacities()))
	}
}

func (o *Report) add(found []history.Finding) {
	slices.SortFunc(found, func(a, b history.Finding) int { return int(a.At - b.At) })
	for i, f := range found {
		if o.violation == 0 {
			o.violation = f.At
		}
		if i == shown {
			o.Findings = append(o.Findings, fmt.Sprintf("and %d more like that", len(found)-shown))
			return
		}
		o.Findings = append(o.Findings, "at "+rounded(f.At).String()+", "+strings.ReplaceAll(f.Text, "\n    ", " "))
	}
}

// files checks the data that the lock should have protected.
func (o *Report) files(r *run) {
	lost := func(file string) Writes {
		s, err := openRegister(r.dir, file).do(func(*state) {})
		if err != nil {
			o.because("the files of the run: %v", err)
		}
		return Writes{s.writes, s.writes - s.value}
	}
	if o.Control = lost(controlFile); o.Control.Lost == 0 && o.tokens {
		o.because("the file without a guard lost no update, so that the run does not show what a late write does")
	}
	if !o.tokens {
		return
	}
	if o.Guarded = lost(guardedFile); o.Guarded.Lost > 0 {
		o.Findings = append(o.Findings,
			fmt.Sprintf("the file that the tokens guard lost %d of %d updates", o.Guarded.Lost, o.Guarded.Count))
	}
}

// hits finds kinds of faults that never hit.
func (o *Report) hits() {
	for _, kind := range Kinds {
		made, hit, why := o.Counts(kind)
		if made == 0 {
			why = "it was never made"
		}
		switch {
		case hit > 0:
		case kind == Cut && why == noConnections:
			o.untested("connections that are cut: the clients of this store have none")
		default:
			o.because("no fault of the kind %s hit: %s", kind, why)
		}
	}
}

// Tokens reports whether the store gives tokens that can be compared.
func (o *Report) Tokens() bool { return o.tokens }
