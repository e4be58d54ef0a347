package explore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stilelock/stile/internal/engine"
)

// impossible says why an event cannot come in a stage; the empty string says that it can.
func impossible(stage, event string) string {
	among := func(stages string) bool { return slices.Contains(strings.Fields(stages), stage) }
	verb, _, _ := strings.Cut(event, " ")
	switch {
	case verb == "Enter" && !among("asking queued quitting"),
		verb == "Await" && !among("queued quitting"),
		verb == "Renew" && !among("held expiring over"),
		verb == "Leave" && !among("leaving withdrawing sweeping"):
		return "no such request is out in this stage"
	case event == "release" && !among("held expiring over"), event == "share" && !among("held expiring over"),
		event == "detach" && !among("held expiring over"), event == "amend" && !among("held expiring over"),
		event == "pin" && !among("held expiring over"):
		return "nobody has a hold, or one waits for the answer to another call"
	case strings.HasSuffix(event, "ok, waits") && verb != "Enter" && verb != "Await",
		strings.HasSuffix(event, "ok, not entered") && verb != "Enter":
		return "only an Enter or an Await tells of a place"
	case event == "Await rejected", event == "Await unsent", event == "Await ok, waits" && stage == "quitting":
		return "the engine looks no further than that the Await did not tell that the claim holds, " +
			"and this goes with unknown"
	case event == "Enter ok, not entered" && stage == "queued":
		return "the claim has a ticket, and the store finds it or says that it is gone"
	case event == "alarm" && (stage == "nowhere" || stage == "displaced"):
		return "there is no claim that a driver knows"
	case event == "give up" && stage == "nowhere":
		return "who waits has a claim that asks, or claims in its way"
	}
	return ""
}

// TestTable checks that every event comes in every stage, except the impossible ones, which must not come.
func TestTable(t *testing.T) {
	var all Table
	worlds := Small()
	for i := range worlds {
		r := walk(&worlds[i])
		if r.Violation != nil {
			t.Fatal(r.Violation)
		}
		all.Add(&r.Table)
	}
	names := Columns()
	var missing []string
	for s := range all {
		for c, n := range all[s] {
			stage := engine.Stage(s).String()
			why := impossible(stage, names[c])
			if n > 0 && why != "" {
				t.Errorf("%s: %s came %d times, although %s", stage, names[c], n, why)
			}
			if n == 0 && why == "" {
				missing = append(missing, fmt.Sprintf("%s: %s", stage, names[c]))
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("never came:\n%s", strings.Join(missing, "\n"))
	}
}
