// Package claims keeps the claims of one process in a store: it has them enter and wait there, renews them while their
// leases are held, ends those leases before the store can give the lock to somebody else, and takes the claims out.
//
// A process queues once, and its goroutines take turns: however many want a lock, the store sees at most one claim of
// theirs that holds and one that waits (for permits, one that waits). A turn costs no round trip, has a token of its
// own, and is bounded in number and in time, so that other processes are not starved.
//
//	goroutines ──► gate ──► seat ──► driver.Driver
//	               (line)   (claim)
//	                          ▲
//	                       renewer      one goroutine for all seats
//
// A [Keeper] has a gate for each name in use, where goroutines stand in line. A seat is one claim in the store. A
// [Hold] is one turn on it.
package claims
