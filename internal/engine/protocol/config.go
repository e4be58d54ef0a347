package protocol

import "time"

// A Config has the settings of a client's engines. It never changes.
type Config struct {
	Turn     time.Duration // how long waiters of a client hand a claim on before it leaves
	Patience time.Duration // how long to ask a store that does not answer
	Strays   int32         // unwanted claims of a line that may be about to leave before the line asks for another
	Observed bool          // there is an observer
	Ordered  bool          // the store grants in the order in which claims entered
	Grain    time.Duration // the least limit of a request; also added to a Place's Retry

	// Trusted returns the end of trust in a lease of length ttl that the store confirmed to a request sent at sent.
	Trusted func(sent Time, ttl time.Duration) Time
	// Jitter returns a random duration from 0 to most, so that clients do not ask in step.
	Jitter func(most time.Duration) time.Duration
}
