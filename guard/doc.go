// Package guard makes a protected resource check the lock's fencing token. The resource then refuses the late write of a
// holder that was paused until its lease ran out. A lock with a lease cannot do that by itself: see docs/explain/safety.md.
//
// There is one kind of guard for each kind of resource:
//
//   - rows of PostgreSQL, MySQL, MariaDB or SQLite: [Table] and [Column], in the caller's own transaction;
//   - keys of Redis: Guard in package redis;
//   - an HTTP service: [Handler] on the server, [Transport] on the client;
//   - a file that several processes write: [RaiseFile];
//   - values in the memory of a process: [Memory].
//
// Each guard keeps a mark for each resource: the highest token that the guard was shown. Two operations work on the mark:
//
//   - Raise shows a token. If the guard has seen a higher token, the answer is [ErrStale]. Otherwise the token becomes the
//     mark, and every earlier holder is shut out.
//   - Check, in one step with a write, finds out whether the token is still the mark. If the guard has seen a higher token,
//     the answer is [ErrStale]; if the token was not raised here, or the mark was lost, it is [ErrNotRaised].
//
// A holder raises its token before its first read of the resource, not with its first write. Otherwise a write can be lost:
// the new holder reads, then the late holder writes with its token, which nothing has superseded yet, and then the new
// holder overwrites that write with a result of its stale read. So here Raise comes first. A holder reads and writes through
// the value that Raise returns, or after Raise, and Check accepts only a raised token.
//
// The same token may be raised and checked again and again: a holder may read and write many times.
//
// Guard a resource with the tokens of only one lock name: tokens of different names cannot be compared. If two grants of a
// name exclude each other, the later one has the larger token, so a guard never refuses the rightful holder of a mutex or a
// writer's lock. stile.Token(ctx) inside Lock.Do, and Lease.Token, return the token; under stile run it is in STILE_TOKEN. A
// joined lock, and a context without a lease, have the token 0. It is [ErrNoToken] and never passes: raise the token of each
// part of a joined lock at the resource that the part's name protects. A writer that raises shuts out the late writes of
// readers. Readers and permits hold at the same time, and a later grant may have the smaller token. So they must not raise:
// a guard would refuse a rightful holder. Guard the thing that each permit stands for, such as a slot, with a mutex of its
// own.
package guard
