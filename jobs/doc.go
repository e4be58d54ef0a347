// Package jobs runs a job by a schedule, at most once a tick across all machines, and runs work once for a key:
//
//	nightly, err := jobs.New(locks, "nightly", "CRON_TZ=Europe/Berlin 0 3 * * *", figures, &jobs.Options{MaxHold: 6 * time.Hour})
//	...
//	err = nightly.Run(ctx) // until ctx ends
//
// All machines run the same program. Each machine computes the ticks by its own clock, and at a tick takes the lock of the
// job's name. Under the lock it reads which tick was begun last. If that is an earlier tick, it records its own tick and
// runs. The context of a run carries the lease, with the token by which a resource refuses a late write. It ends when
// another machine may run.
//
// The store remembers the last tick as the value of a claim on the name NAME/last, which is kept for 24 hours (see
// [stile.Lease.UnlockAfter]). The machines that wait for a tick write it again. NAME/copy has the same value, and counts
// while NAME/last has none. The machine writes last the place that counts: if it dies while it writes, the record is either
// the previous tick or its own tick:
//
//	copy, last: old, old ──► none, old ──► new, old ──► new, none ──► new, new
//	            old, none ──► old, new ──► none, new ──► new, new
//
// The loss of both is harmless while the machines' clocks agree to within [Options.AtLeast], and otherwise lets a late
// machine run a tick again; docs/howto/jobs.md says for each store when that can be.
//
// A tick is in one of these stages in the store:
//
//	unknown ──► started ──► over
//
// The tick is started before its run begins. So a run that dies is repeated only if [Options.Missed] says so.
//
// Work with an external cause, such as a callback that may arrive twice, has no ticks: [Once] runs it once for a key, and
// gives its answer to all callers.
package jobs
