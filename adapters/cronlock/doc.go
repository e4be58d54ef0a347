// Package cronlock makes programs on many machines run each job of a robfig/cron schedule on one of them, over any store of
// stile:
//
//	locker, err := cronlock.New(locks, &cronlock.Options{AtLeast: 10 * time.Second})
//	...
//	job := cron.NewChain(cron.Recover(cron.DefaultLogger), locker.SkipIfHeld("report")).Then(cron.FuncJob(report))
//	_, err = c.AddJob("0 3 * * *", job)
//
// [Locker.SkipIfHeld] skips a tick that another machine runs. [Locker.DelayIfHeld] runs the tick after the other machine,
// for work that each machine does, but no two at once.
//
// cron does not remember ticks. A machine whose clock is late runs a tick again, unless [Options.AtLeast] keeps the lock for
// that time, and a run whose machine died is not made up for. Package jobs of stile does both.
package cronlock
