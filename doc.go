// Package stile keeps locks that many processes share, over the store that they already run.
//
//	c, err := stile.Open(ctx, "redis://cache:6379", nil)
//	...
//	err = c.Mutex("orders/42").Do(ctx, func(ctx context.Context) error {
//		return ship(ctx, stile.Token(ctx)) // ctx ends before the lock can pass to somebody else
//	})
//
// A [Lock] is something that can be held: a mutex, a reader's or a writer's side, some permits of many, or several of
// these together. Holding it is a [Lease], which lasts for a time and is renewed while its client lives. If the client
// dies, or cannot reach the store, the lease runs out and the lock passes on.
//
// Leader election is the same: who holds a [Client.Candidate] leads, [Lock.Do] is a term, and [Client.Observe] tells
// everybody who leads. See docs/howto/leader.md.
//
// A lease is not enough by itself: a process that is paused between looking at its lease and writing will write late.
// [Lease.Check] makes that moment short, and [Lease.Token], a number that rises from holder to holder, lets the
// resource refuse the late write. See docs/explain/safety.md.
//
// A machine's sleep is counted on Linux; elsewhere a lease that ran out meanwhile is found out when it is renewed.
//
// The store is chosen by URL; its package is imported for its scheme. Package memory is a store inside the process,
// and the double for tests, since it can lose, delay and refuse on cue.
package stile
