package stile

import "context"

// Downgrade makes the lease of a mutex or a writer that of a reader, in one step: readers that wait right behind it hold
// from then on, and no writer holds in between. The token and the lease stay. There is no way back: a reader that waits to
// write would wait for other readers that do the same.
//
// From the call on the lease is a reader's, whatever the error: nothing may be written under it, since the store may have
// let readers in. An error is ErrUnsupported on a store that cannot do this (see driver.Traits.Amends), of a lease that is
// shared by re-entering, of permits and of joined locks. The store is asked until it answers or the lease is lost, also
// after ctx has ended.
func (l *Lease) Downgrade(ctx context.Context) error {
	err := l.sole(ctx)
	if err == nil {
		err = l.share.Downgrade(ctx)
	}
	return wrapped("downgrade", l.Name(), err)
}

// Proclaim gives a leader another value than that of [Client.Candidate], while it leads. [Client.Leader] returns the
// new value from then on, and [Client.Observe] yields it. The lease is that of a candidate, a mutex or a writer. If another goroutine
// stands for the same name, it campaigns anew, with its own value, once this one resigns.
//
// The error is ErrUnsupported on a store that cannot do this; see driver.Traits.Amends. If ctx ends before the store has
// answered, the value may have changed, or will: the store is asked until it answers, and Proclaim may be called again.
func (l *Lease) Proclaim(ctx context.Context, value string) error {
	err := l.sole(ctx)
	if err == nil {
		err = l.share.Proclaim(ctx, value)
	}
	return wrapped("proclaim", l.Name(), err)
}
