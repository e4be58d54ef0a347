package claims

import (
	"fmt"
	"runtime"

	"github.com/stilelock/stile/internal/engine/protocol"
)

// A Guard waits for a lease to be forgotten. A nil Guard waits for nothing.
type Guard struct{ cleanup runtime.Cleanup }

// Observed reports whether an observer is told what becomes of a share.
func (s *Share) Observed() bool { return s.hold.c.n.shard.k.events != nil }

// GuardLeak informs the observer if a lease, which has this share, is forgotten before Stop: by an event of this
// kind, that names the caller so many frames up. The share is observed.
func GuardLeak[T any](lease *T, s *Share, skip int, kind protocol.Kind) *Guard {
	var pc [1]uintptr
	runtime.Callers(skip+1, pc[:])
	return &Guard{runtime.AddCleanup(lease, leak.report, leak{s, pc[0], kind})}
}

// Stop ends the waiting, since the lease is released.
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

// report informs the observer, unless the share is over.
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
