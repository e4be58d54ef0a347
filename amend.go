package stile

import "context"

// Downgrade turns the lease of a mutex or a writer into a reader's lease, in one step. Readers that wait right behind it hold
// from then on, and no writer holds in between. The token and the lease stay. There is no way back: a reader that waits to
// write would wait for other readers that do the same.
//
// From the call on the lease is a reader's, whatever the error: nothing may be written under it, since the store may have let
// readers in. The error is ErrUnsupported on a store that cannot do this (see driver.Traits.Amends), for a lease that is
// shared by re-entering, for permits and for joined locks. The client asks until the store answers or the lease is lost, even
// after ctx ended.
func (l *Lease) Downgrade(ctx context.Context) error {
	err := l.sole(ctx)
	if err == nil {
		err = l.share.Downgrade(ctx)
	}
	return wrapped("downgrade", l.Name(), err)
}

// Proclaim replaces the value of [Client.Candidate] while the leader leads. [Client.Leader] returns the new value
// from then on, and [Client.Observe] yields it. The lease must be exclusive. If another goroutine stands for the same
// name, it campaigns again, with its own value, when this leader resigns.
//
// The error is ErrUnsupported on a store that cannot do this; see driver.Traits.Amends. If ctx ends before the store has
// answered, the value may have changed, or may still change, since the client asks until the store answers. Proclaim may
// be called again.
func (l *Lease) Proclaim(ctx context.Context, value string) error {
	err := l.sole(ctx)
	if err == nil {
		err = l.share.Proclaim(ctx, value)
	}
	return wrapped("proclaim", l.Name(), err)
}
