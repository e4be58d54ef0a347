package claims

import (
	"fmt"
	"runtime"

	"github.com/stilelock/stile/internal/engine/protocol"
)

// A Guard watches for a forgotten lease. A nil Guard does nothing.
type Guard struct{ cleanup runtime.Cleanup }

// Observed reports whether the share's keeper has an observer.
func (s *Share) Observed() bool { return s.hold.c.n.shard.k.events != nil }

// GuardLeak notifies the observer if the lease with this share is garbage before Stop, by an event of a kind that names the
// caller skip frames up. The share must be observed.
func GuardLeak[T any](lease *T, s *Share, skip int, kind protocol.Kind) *Guard {
	var pc [1]uintptr
	runtime.Callers(skip+1, pc[:])
	return &Guard{runtime.AddCleanup(lease, leak.report, leak{s, pc[0], kind})}
}

// Stop ends the watch, since the lease is released.
func (g *Guard) Stop() {
	if g != nil {
		g.cleanup.Stop()
	}
}

// A leak describes a lease that nobody can release any more.
type leak struct {
	share *Share
	taken uintptr
	kind  protocol.Kind
}

// report notifies the observer, unless the share is over.
func (l leak) report() {
	if l.share.Check() != nil {
		return
	}
	frame, _ := runtime.CallersFrames([]uintptr{l.taken}).Next()
	k := l.share.hold.c.n.shard.k
	if k.events != nil {
		k.events.add(Event{
			Event: protocol.Event{Kind: l.kind, Token: l.share.Ticket()}, Name: l.share.Name(),
			Taken: fmt.Sprintf("%s:%d", frame.File, frame.Line),
		})
	}
}
