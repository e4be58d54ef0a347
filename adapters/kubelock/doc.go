// Package kubelock has programs elect a leader by client-go's leaderelection over any store of stile, in place of a Lease
// object of the Kubernetes API:
//
//	lock, err := kubelock.New(locks, "scheduler", hostname)
//	...
//	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{Lock: lock, LeaseDuration: 15 * time.Second, ...})
//
// A leader is a candidate of stile: [stile.Client.Leader] returns it, `stile elect` may stand for the same name, and
// its term has a token. The store judges when a lease is over, so clocks of machines are not compared.
//
// # What the elector may rely on
//
// After each update that succeeds, nobody else leads for the elector's LeaseDuration, as with a Lease object. The elector stops
// to lead if it has not had one for its RenewDeadline, which is shorter. To keep that promise between two renewals, the lease
// in the store lasts twice as long as LeaseDuration. After a crash another leads when that time is over.
//
// A lease that is lost ends the term: this lock refuses all further updates until the elector has stopped to lead, so it never
// leads on under another token without its program knowing. The work of a leader that must not go on for even a moment longer
// takes the context of [Lock.Context], which ends with the lease.
package kubelock
