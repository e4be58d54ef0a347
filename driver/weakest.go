package driver

import "slices"

// Weakest returns the promises that all of the stores make, for a claim that may be in any of them. It has the notes and
// warnings of all stores, each once, and Store and Server of the first. Without stores, the result is the zero Traits.
func Weakest(all ...Traits) Traits {
	if len(all) == 0 {
		return Traits{}
	}
	t := all[0]
	for _, o := range all[1:] {
		t.Ordered, t.Shared = t.Ordered && o.Ordered, t.Shared && o.Shared
		t.Permits, t.Delay = t.Permits && o.Permits, t.Delay && o.Delay
		t.InSession, t.OwnClient = t.InSession || o.InSession, t.OwnClient || o.OwnClient
		t.FullWait, t.ShortRecord = t.FullWait || o.FullWait, t.ShortRecord || o.ShortRecord
		t.lackWith(&o)
		t.Restart, t.Failover = t.Restart && o.Restart, t.Failover && o.Failover
		t.Fencing = min(t.Fencing, o.Fencing)
		t.Clock, t.Wake = farther(clocks, t.Clock, o.Clock), farther(wakes, t.Wake, o.Wake)
		t.MinTTL, t.MaxTTL, t.Granularity = max(t.MinTTL, o.MinTTL), min(t.MaxTTL, o.MaxTTL), max(t.Granularity, o.Granularity)
		t.Session = max(t.Session, o.Session)
		t.remark(&o)
	}
	return t
}

// lackWith removes the powers over present claims and names that another store lacks.
func (t *Traits) lackWith(o *Traits) {
	t.Amends, t.Asks = t.Amends && o.Amends, t.Asks && o.Asks
	t.HearsBreak = t.HearsBreak && o.HearsBreak
}

// remark adds the notes and warnings of another store.
func (t *Traits) remark(o *Traits) {
	for _, n := range o.Notes {
		t.Note("%s", n)
	}
	for _, w := range o.Warnings {
		t.warn(w)
	}
}

// The words of Clock and Wake, from the strongest promise to the weakest.
var (
	clocks = []string{"process", "host", "server", "session"}
	wakes  = []string{"push", "poll"}
)

func farther(words []string, a, b string) string {
	if slices.Index(words, a) < slices.Index(words, b) {
		return b
	}
	return a
}
