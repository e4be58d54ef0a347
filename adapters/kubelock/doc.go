// Package kubelock makes programs elect a leader by client-go's leaderelection over any store of stile, in place of a Lease
// object of the Kubernetes API:
//
//	lock, err := kubelock.New(locks, "scheduler", hostname)
//	...
//	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{Lock: lock, LeaseDuration: 15 * time.Second, ...})
//
// A leader is a candidate of stile: [stile.Client.Leader] returns it, `stile elect` may stand for the same name, and its
// term has a token. The store judges when a lease is over, so no machine's clock is compared with another's.
//
// # What the elector may rely on
//
// After each successful update, nobody else leads for the elector's LeaseDuration, as with a Lease object. The elector stops
// leading if no update succeeds for its RenewDeadline, which is shorter. To keep that promise between two renewals, the
// lease in the store lasts twice as long as LeaseDuration. After a crash another leads when that time is over.
//
// A lost lease ends the term: this lock refuses all further updates until the elector has stopped leading, so it never leads
// on under another token without its program knowing. If a leader's work must not go on for even a moment longer, use the
// context of [Lock.Context], which ends with the lease.
package kubelock
