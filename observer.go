package stile

import (
	"context"
	"log/slog"
	"time"

	"github.com/stilelock/stile/internal/claims"
)

// An Observer receives the events of a client's leases, one after the other, in order. A separate goroutine calls it, and
// leases and locks do not wait for it. It may use the client, and its panic ends the program. When some thousands of events
// wait for a slow observer, further events are dropped and counted; see Event.Dropped.
type Observer func(Event)

// An Event is one thing that happened.
type Event struct {
	Kind   Kind
	Name   string
	Token  int64         // of the grant, or the first of its claim; only the ticket for a store without fencing
	Waited time.Duration // EventAcquired: since the call
	Local  bool          // EventAcquired: handed on inside this process
	Margin time.Duration // how much of the lease was left; little left is a near miss
	Held   time.Duration // EventReleased and EventLost: since it was acquired
	Taken  string        // EventLeaked: file and line of the call that acquired it
	Err    error         // EventJeopardy, EventLost, and EventReleased of unknown outcome

	Dropped int64 // how many events were lost before this one, since the observer was too slow
}

// A Kind is the kind of an event.
type Kind int

// The kinds of events.
const (
	EventAcquired  Kind = iota + 1 // a lease began
	EventWaiting                   // a claim waits in the store's queue
	EventRenewed                   // the store confirmed a renewal
	EventJeopardy                  // a renewal failed; it is tried again until the deadline
	EventLost                      // a lease ended before it was released
	EventReleased                  // a lease was released
	EventLeaked                    // a lease that nobody can release any more is still held, and renewed
	EventAsked                     // somebody asks for the lock: Client.Ask, or Curator's revocation; the lease goes on
	EventDisplaced                 // the store no longer has a claim that waited; its waiters enter again, at the tail
)

// String names the kind in a word.
func (k Kind) String() string {
	names := [...]string{"nothing", "acquired", "waiting", "renewed", "jeopardy", "lost", "released", "leaked", "asked", "displaced"}
	if k < 0 || int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}

// inner returns the observer in the form that package claims calls.
func (o Observer) inner() func(claims.Event) {
	if o == nil {
		return nil
	}
	return func(e claims.Event) {
		o(Event{
			Kind: Kind(e.Kind), Name: e.Name, Token: e.Token, Waited: e.Waited, Local: e.Local, Margin: e.Margin,
			Held: e.Held, Taken: e.Taken, Err: explain(e.Err), Dropped: e.Dropped,
		})
	}
}

// LogTo returns an observer that writes events to a logger: trouble as warnings, and the rest at the debug level.
func LogTo(log *slog.Logger) Observer {
	return func(e Event) {
		level := slog.LevelDebug
		if e.Kind == EventJeopardy || e.Kind == EventLost || e.Kind == EventLeaked || e.Kind == EventDisplaced {
			level = slog.LevelWarn
		}
		if !log.Enabled(context.Background(), level) {
			return
		}
		attrs := []slog.Attr{slog.String("name", e.Name), slog.Int64("token", e.Token)}
		for _, d := range []struct {
			key   string
			value time.Duration
		}{{"waited", e.Waited}, {"margin", e.Margin}, {"held", e.Held}} {
			if d.value != 0 {
				attrs = append(attrs, slog.Duration(d.key, d.value))
			}
		}
		if e.Local {
			attrs = append(attrs, slog.Bool("local", true))
		}
		if e.Taken != "" {
			attrs = append(attrs, slog.String("taken", e.Taken))
		}
		if e.Dropped > 0 {
			attrs = append(attrs, slog.Int64("dropped", e.Dropped))
		}
		if e.Err != nil {
			attrs = append(attrs, slog.Any("err", e.Err))
		}
		log.LogAttrs(context.Background(), level, "lock "+e.Kind.String(), attrs...)
	}
}
