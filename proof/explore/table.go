package explore

import (
	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// A Table counts how often each event came to a claim in each stage. A row is a stage; the row of free slots stands for a
// client without claims. A column is an event, as [Columns] names it.
type Table [engine.Stages][columns]uint64

const (
	acts    = int(tick) + 1
	perVerb = 7
	columns = acts + 4*perVerb
)

var (
	verbs    = [...]string{"no request", "Enter", "Await", "Renew", "Leave"}
	outcomes = [...]string{"ok", "absent", "adrift", "broken", "rejected", "lacking", "unsent", "unknown", "ok, waits", "ok, not entered"}
	codes    = [...]string{"pending", "ok", "held", "lost", "refused", "unreachable", "doubtful", "closed", "shared"}
)

// answerColumns are the columns of a verb's outcomes; adrift, broken and lacking count as absent.
var answerColumns = [...]int{0, 1, 1, 1, 2, 1, 3, 4, 5, 6}

// Columns names the columns of a table.
func Columns() (names [columns]string) {
	for k := range Kind(acts) {
		names[k] = k.String()
	}
	for v := protocol.Enter; v <= protocol.Leave; v++ {
		for o, name := range outcomes {
			if name != "adrift" && name != "broken" && name != "lacking" {
				names[column(v, o)] = verbs[v] + " " + name
			}
		}
	}
	return names
}

func column(v protocol.Verb, outcome int) int {
	return acts + (int(v)-1)*perVerb + answerColumns[outcome]
}

// local counts an event of a goroutine, or of the clock.
func (t *Table) local(w *World, ev Event) {
	if t == nil {
		return
	}
	c := &w.clients[ev.Client]
	switch ev.Kind {
	case doRelease, doShare, doDetach, doAmend, doPin:
		t[c.e.Stage(c.e.Claim(c.gs[ev.G].slot))][ev.Kind]++
		return
	case doAlarm:
		t[c.e.Stage(engine.Slot(ev.G))][ev.Kind]++
		return
	}
	any := false
	for s := range engine.Slot(c.e.Slots()) {
		if c.e.Used(s) {
			t[c.e.Stage(s)][ev.Kind]++
			any = true
		}
	}
	if !any {
		t[0][ev.Kind]++
	}
}

// answered counts an answer.
func (t *Table) answered(c *client, v protocol.Verb, r *protocol.Reply) {
	if t == nil {
		return
	}
	t[c.e.Stage(r.Claim)][column(v, outcomeOf(v, r))]++
}

func outcomeOf(v protocol.Verb, r *protocol.Reply) int {
	o := int(r.Outcome)
	if r.Outcome == protocol.Answered && (v == protocol.Enter || v == protocol.Await) && !r.Place.Holds {
		if o = 8; v == protocol.Enter && r.Place.Ticket == 0 {
			o = 9
		}
	}
	return o
}

// Add adds the counts of another table.
func (t *Table) Add(o *Table) {
	for s := range t {
		for c := range t[s] {
			t[s][c] += o[s][c]
		}
	}
}
