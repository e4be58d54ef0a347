package explore

import (
	"fmt"
	"strings"

	"github.com/stilelock/stile/internal/engine"
)

// effectString tells what an engine wants done.
func effectString(f *engine.Effect) string {
	switch f.Do {
	case engine.Send:
		s := fmt.Sprintf("send %s for claim %d as request %d, within %v", verbs[f.Verb], f.Claim, f.Number, f.Limit)
		if f.Keep > 0 {
			s += fmt.Sprintf(", kept for %v", f.Keep)
		}
		return s
	case engine.Cut:
		return fmt.Sprintf("cut request %d", f.Number)
	case engine.Trust:
		return fmt.Sprintf("trust claim %d until %v", f.Claim, f.Until-start)
	case engine.Grant:
		return fmt.Sprintf("grant hold %d to waiter %d", f.Turn, f.Turn)
	case engine.Fail:
		return fmt.Sprintf("fail waiter %d: %s", f.Turn, codes[f.Code])
	case engine.End:
		return fmt.Sprintf("end hold %d: %s", f.Turn, reasons[f.Reason])
	case engine.Done:
		return fmt.Sprintf("answer the %s of hold %d, claim %d: %s", verbs[f.Verb], f.Turn, f.Claim, codes[f.Code])
	case engine.Gone:
		return fmt.Sprintf("free claim %d", f.Claim)
	default:
		return fmt.Sprintf("tell observers %d", f.Event.Kind)
	}
}

var reasons = [...]string{"no reason", "expired", "removed", "suspended", "held long", "shutdown", "session over"}

func replyString(v engine.Verb, r *engine.Reply) string {
	s := fmt.Sprintf("%s for claim %d sent at %v: %s", verbs[v], r.Claim, r.Sent-start, outcomes[outcomeOf(v, r)])
	if r.Outcome == engine.Answered {
		switch v {
		case engine.Enter, engine.Await:
			s += fmt.Sprintf(", ticket %d, lease %v, retry %v", r.Place.Ticket, r.Place.TTL, r.Place.Retry)
		case engine.Renew, engine.Extend:
			s += fmt.Sprintf(", lease %v", r.TTL)
		}
	}
	return s
}

// storeString is the store's queue in a line.
func (w *World) storeString() string {
	if len(w.store.Entries) == 0 {
		return "the store is empty"
	}
	var s strings.Builder
	s.WriteString("the store has")
	for i := range w.store.Entries {
		e := &w.store.Entries[i]
		fmt.Fprintf(&s, " %d (id %s, for %v)", e.Ticket, e.ID, engine.Time(e.Ends)*us-w.now)
		if i == w.holds()-1 {
			s.WriteString(" |")
		}
	}
	return s.String()
}
