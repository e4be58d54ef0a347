package protocol

import "time"

// A Config is how the engines of one client decide. It never changes.
type Config struct {
	Turn     time.Duration // how long waiters hand a claim on among themselves
	Patience time.Duration // how long a store that does not answer is asked again
	Strays   int32         // how many claims of a line that nobody wants may be on their way out before it asks for another
	Observed bool          // somebody is told of events
	Ordered  bool          // the store grants in the order in which claims entered
	Grain    time.Duration // the shortest time that a request is given or a claim ahead is late

	// Trusted returns until when a lease is trusted that the store confirmed by a request sent then.
	Trusted func(sent Time, ttl time.Duration) Time
	// Jitter returns a duration from 0 to most, so that clients do not ask in step.
	Jitter func(most time.Duration) time.Duration
}
