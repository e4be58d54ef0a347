// Package guard makes what a lock protects check the lock's fencing token, so that the late write of a holder that was
// paused until its lease ran out is refused. A lock with a lease cannot do that by itself: see docs/explain/safety.md.
//
// There is one kind of guard for each kind of resource:
//
//   - rows of PostgreSQL, MySQL, MariaDB or SQLite: [Table] and [Column], in the caller's own transaction;
//   - keys of Redis: Guard in package redis;
//   - an HTTP service: [Handler] on the server, [Transport] on the client;
//   - a file that several processes write: [RaiseFile];
//   - values in the memory of a process: [Memory].
//
// Each keeps a mark for each resource: the highest token that it was shown. Two operations work on it:
//
//   - Raise shows a token. If a higher one came before, the answer is [ErrStale]. Otherwise the mark is the token now, and
//     every holder before this one is shut out.
//   - Check, in one step with a write, finds out whether the mark is the token still. If a higher one came, the answer is
//     [ErrStale]; if the token was not raised here, or the mark was lost, it is [ErrNotRaised].
//
// A holder raises its token before its first read of the resource, not with its first write. Otherwise it reads, then
// the late holder writes, whose token nothing has superseded yet, and then the new holder overwrites that by what it
// computed from its stale read. So here Raise comes first: what is used to read and write is what Raise returns, or runs
// after it, and Check accepts no token that was not raised.
//
// The same token may be raised and checked again and again: a holder may read and write many times.
//
// Tokens are those of one lock name. A resource is guarded by one name, and its tokens can be compared with no other's.
// A token is larger than the token of every earlier grant of the name that excluded this one, so a guard never refuses
// the rightful holder of a mutex or a writer's lock.
// stile.Token(ctx) inside Lock.Do, and Lease.Token, return them; STILE_TOKEN has it under stile run. A token of 0, which a
// joined lock has and a context without a lease, is [ErrNoToken] and never passes: raise the token of each part of a
// joined lock at the resource that its name protects. A writer that raises shuts late readers out of what they would
// write. Readers and permits hold at the same time, and one that was granted later may have the smaller token, so they must not
// raise: a guard would refuse a rightful holder. Guard what each permit stands for, such as a slot, by a mutex of its own.
package guard
