// Package jobs runs a job by a schedule, at most once a tick over all machines that have it, and work once for a key:
//
//	nightly, err := jobs.New(locks, "nightly", "CRON_TZ=Europe/Berlin 0 3 * * *", figures, &jobs.Options{MaxHold: 6 * time.Hour})
//	...
//	err = nightly.Run(ctx) // until ctx ends
//
// All machines run the same program. Each computes the ticks by its own clock, and at a tick takes the lock of the job's
// name. Under the lock it reads which tick was begun last, and if that is an earlier one, writes down its own and runs. The
// context of a run carries the lease, with the token that a late write is refused by, and ends when another machine may run.
//
// What was begun last is remembered in the store, as the value of a claim on the name NAME/last that is kept for 24 hours
// (see [stile.Lease.UnlockAfter]), and that the machines which wait for a tick write again. NAME/copy has it too,
// and counts while NAME/last has nothing. The one that counts is written last: a machine that dies while it writes leaves what
// was begun before, or its own tick:
//
//	copy, last: old, old ──► none, old ──► new, old ──► new, none ──► new, new
//	            old, none ──► old, new ──► none, new ──► new, new
//
// The loss of both is harmless while the machines' clocks agree to within [Options.AtLeast], and otherwise lets a late machine
// run a tick again; docs/howto/jobs.md says for each store when that can be.
//
// A tick is in one of these stages, as the store has it:
//
//	unknown ──► started ──► over
//
// It is started before the run begins, so a run that dies is not repeated, unless [Options.Missed] says that it is to be made
// up for.
//
// What is started from outside, such as by a callback that may come twice, has no ticks: [Once] runs it once for a key, and
// gives its answer to all who ask.
package jobs
