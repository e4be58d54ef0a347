// Package claims runs the engines of a whole client: it holds the locks, reads the clock, calls the driver, and answers
// goroutines.
//
//	goroutines ──► Acquire, Release ──► engine ──► effects ──► driver.Driver
//	                                      ▲  ▲                      │
//	                  timekeeper: Tick ───┘  └──── Answer ──────────┘
//
// A [Keeper] has a name, with an engine, for each name in use. Names are spread over shards with a mutex each, so that they
// do not wait for each other. One goroutine, the timekeeper, gives the engines the time and renews the claims of all names
// in batches. A request runs in the goroutine that needs the answer, or in a worker, always on a context of the keeper's
// own; see [call].
package claims
