package inspect

import (
	"fmt"
	"strconv"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/page"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/phrase"
)

// A QueueView is a name and its claims in JSON. Programs rely on the keys, all of which are always there. Times are
// seconds, tickets are strings, since they exceed what many JSON readers keep exactly.
type QueueView struct {
	At      string      `json:"at,omitempty"` // watch: the time of this state
	Name    string      `json:"name"`
	Permits int64       `json:"permits"` // how many the name has; 0 for a mutex, or readers and writers
	Claims  []ClaimView `json:"claims"`  // in the order in which they hold
}

// A ClaimView is one holder or waiter in JSON.
type ClaimView struct {
	Ticket    string          `json:"ticket"`    // the first of its holder's tokens
	Kind      string          `json:"kind"`      // exclusive, shared or permits
	Weight    int64           `json:"weight"`    // permits, or 1 for shared; 0 for exclusive
	State     string          `json:"state"`     // holds, waits or released (and kept for a while)
	Since     answer.Seconds  `json:"since"`     // how long ago it entered the queue
	Remaining *answer.Seconds `json:"remaining"` // null if the store does not report it
	TTL       *answer.Seconds `json:"ttl"`       // its full lease while it holds; null if it is not known
	Owner     string          `json:"owner"`
	Program   string          `json:"program"`
	Host      string          `json:"host"`
	PID       int             `json:"pid"`
	Reason    string          `json:"reason"`
	Value     string          `json:"value"`
	Principal string          `json:"principal"` // "" if no lock service knows it
}

func remainingOf(c stile.Claim) *answer.Seconds {
	if c.Remaining == 0 {
		return nil
	}
	return new(answer.SecondsOf(c.Remaining))
}

func ttlOf(c stile.Claim) *answer.Seconds {
	if c.TTL == 0 {
		return nil
	}
	return new(answer.SecondsOf(c.TTL))
}

func viewOf(q stile.Queue) QueueView {
	v := QueueView{Name: q.Name, Permits: q.Permits, Claims: []ClaimView{}}
	for _, c := range q.Claims {
		kind := "exclusive"
		switch {
		case q.Permits > 0:
			kind = "permits"
		case c.Weight > 0:
			kind = "shared"
		}
		v.Claims = append(v.Claims, ClaimView{
			Ticket: strconv.FormatInt(c.Ticket, 10), Kind: kind, Weight: c.Weight, State: stateOf(c),
			Since: answer.SecondsOf(c.Since), Remaining: remainingOf(c), TTL: ttlOf(c),
			Owner: c.Holder.Owner, Program: c.Holder.Program, Host: c.Holder.Host, PID: c.Holder.PID,
			Reason: c.Holder.Reason, Value: c.Holder.Value, Principal: c.Holder.Principal,
		})
	}
	return v
}

func stateOf(c stile.Claim) string {
	switch {
	case c.Left:
		return "released"
	case c.Holds:
		return "holds"
	}
	return "waits"
}

// row is one claim for a person.
func row(q stile.Queue, c stile.Claim) []string {
	weight := "all"
	switch {
	case q.Permits > 0:
		weight = fmt.Sprintf("%d of %d", c.Weight, q.Permits)
	case c.Weight > 0:
		weight = "shared"
	}
	h := c.Holder
	owner := h.Owner
	if owner == "" {
		owner = h.Program
	}
	switch {
	case owner == "":
		owner = h.Value // a claim of another program has nothing else
	case h.Value != "":
		owner += " (" + page.Value(h.Value) + ")"
	}
	if h.Principal != "" {
		owner += " as " + h.Principal
	}
	pid := ""
	if h.PID != 0 {
		pid = strconv.Itoa(h.PID)
	}
	return []string{strconv.FormatInt(c.Ticket, 10), stateOf(c), weight, owner, h.Host, pid, phrase.Short(c.Since), left(c),
		h.Reason}
}

const rowHead = "TICKET\tSTATE\tWEIGHT\tOWNER\tHOST\tPID\tSINCE\tREMAINING\tREASON"

// left returns the rest of a claim's lease, for a person; "" if the store does not report it.
func left(c stile.Claim) string {
	switch {
	case c.Remaining == 0:
		return ""
	case c.Remaining < 0:
		return "run out"
	}
	if age := page.Unrenewed(c); age > 0 {
		return phrase.Short(c.Remaining) + ", not renewed for " + phrase.Short(age)
	}
	return phrase.Short(c.Remaining)
}
