package claims

import (
	"fmt"
	"runtime"

	"github.com/stilelock/stile/internal/engine"
)

// A Leak is what is left of a lease that nobody can release any more.
type Leak struct {
	share *Share
	taken uintptr
	kind  engine.Kind
}

// LeakOf readies the report of a leak, as an event of this kind, that names the caller so many frames up.
func LeakOf(s *Share, skip int, kind engine.Kind) Leak {
	var pc [1]uintptr
	runtime.Callers(skip+1, pc[:])
	return Leak{s, pc[0], kind}
}

// Report has the observer told, unless the share is over.
func (l Leak) Report() {
	if l.share.Check() != nil {
		return
	}
	frame, _ := runtime.CallersFrames([]uintptr{l.taken}).Next()
	k := l.share.hold.c.n.shard.k
	if k.events != nil {
		k.events.add(Event{
			Event: engine.Event{Kind: l.kind, Token: l.share.Token()}, Name: l.share.Claim().Name,
			Taken: fmt.Sprintf("%s:%d", frame.File, frame.Line),
		})
	}
}
