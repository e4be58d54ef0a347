package explore

import (
	"fmt"
	"strings"

	"github.com/stilelock/stile/internal/engine"
	"github.com/stilelock/stile/internal/engine/protocol"
)

// effectString describes an effect of the engine.
func effectString(f *protocol.Effect) string {
	switch f.Do {
	case protocol.Send:
		s := fmt.Sprintf("send %s for claim %d as request %d, within %v", verbs[f.Verb], f.Claim, f.Number, f.Limit)
		if f.Keep > 0 {
			s += fmt.Sprintf(", kept for %v", f.Keep)
		}
		return s
	case protocol.Cut:
		return fmt.Sprintf("cut request %d", f.Number)
	case protocol.Trust:
		return fmt.Sprintf("trust claim %d until %v", f.Claim, f.Until-start)
	case protocol.Grant:
		return fmt.Sprintf("grant hold %d to waiter %d", f.Turn, f.Turn)
	case protocol.Fail:
		return fmt.Sprintf("fail waiter %d: %s", f.Turn, codes[f.Code])
	case protocol.End:
		return fmt.Sprintf("end hold %d: %s", f.Turn, reasons[f.Reason])
	case protocol.Done:
		return fmt.Sprintf("answer the %s of hold %d, claim %d: %s", verbs[f.Verb], f.Turn, f.Claim, codes[f.Code])
	case protocol.Gone:
		return fmt.Sprintf("free claim %d", f.Claim)
	default:
		return fmt.Sprintf("tell observers %d", f.Event.Kind)
	}
}

var reasons = [...]string{"no reason", "expired", "removed", "suspended", "held long", "shutdown", "session over", "unfit", "by hand"}

func replyString(v protocol.Verb, r *protocol.Reply) string {
	s := fmt.Sprintf("%s for claim %d sent at %v: %s", verbs[v], r.Claim, r.Sent-start, outcomes[outcomeOf(v, r)])
	if r.Outcome == protocol.Answered {
		switch v {
		case protocol.Enter, protocol.Await:
			s += fmt.Sprintf(", ticket %d, lease %v, retry %v", r.Place.Ticket, r.Place.TTL, r.Place.Retry)
		case protocol.Renew:
			s += fmt.Sprintf(", lease %v", r.TTL)
		}
	}
	return s
}

// storeString describes the store's queue in one line.
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
