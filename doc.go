// Package stile gives many processes shared locks, and keeps them in the store that you already run.
//
//	c, err := stile.Open(ctx, "redis://cache:6379", nil)
//	...
//	err = c.Mutex("orders/42").Do(ctx, func(ctx context.Context) error {
//		return ship(ctx, stile.Token(ctx)) // ctx ends before the lease does
//	})
//
// A [Lock] can be held: it is a mutex, a reader's or a writer's side of a name, some of a name's permits, or several of these
// together. A holder has a [Lease], which lasts for a time and which its client renews while it lives. If the client dies, or
// cannot reach the store, the lease runs out and the lock passes on.
//
// Leader election works the same way: the holder of a [Client.Candidate] leads, [Lock.Do] is one term, and [Client.Observe]
// yields the leader to everybody. See docs/howto/leader.md.
//
// A break by hand, and a store that forgot the lock, end no lease in time: another client may hold at once, and ctx ends a
// moment later. Nor is a lease enough by itself: a process that is paused between the check of its lease and its write will
// write late. [Lease.Check] makes that moment short, and [Lease.Token], a number that rises from holder to holder, lets the
// resource refuse the late write. See docs/explain/safety.md.
//
// On Linux a lease counts the time in which the machine sleeps. Elsewhere the next renewal shows that a lease ran out.
//
// A URL chooses the store; import the store's package for its scheme. Package memory is a store inside the process. It also
// serves tests, since it can lose, delay and refuse requests on cue.
package stile
