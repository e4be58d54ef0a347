// Package claims runs package engine, which decides, for a whole client: it holds the locks, reads the clock, calls the
// driver, and answers goroutines.
//
//	goroutines ──► Acquire, Release ──► engine ──► effects ──► driver.Driver
//	                                      ▲  ▲                      │
//	                  timekeeper: Tick ───┘  └──── Answer ──────────┘
//
// A [Keeper] has a name for each name in use, with an engine of its own. Names are spread over shards, each with a
// lock of its own, so that names do not wait for each other. One goroutine, the timekeeper, gives engines the time
// and renews the claims of all names in batches. Requests run in the goroutine that needs the answer or in a worker,
// always on a context of the keeper's own; see [call].
package claims
