// Package gocronlock makes schedulers of gocron v2 on many machines run each job on one of them, over any store of stile:
//
//	locker := gocronlock.NewLocker(locks, &gocronlock.Options{AtLeast: 10 * time.Second})
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// With a [Locker] each run of a job takes the lock of the job's name: the first machine runs it. With an [Elector] one
// machine runs all jobs, until it dies.
//
// gocron does not remember ticks. A machine whose clock is late runs a tick again, unless [Options.AtLeast] keeps the lock
// for that time, and a run whose machine died is not made up for. Package jobs of stile does both.
package gocronlock
