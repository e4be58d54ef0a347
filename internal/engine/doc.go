// Package engine decides for one name in one client: which goroutine has the turn, which requests go to the store, what a
// late, lost or unknown answer means, and when a lease is over. It is pure: the state, one event and the time go in, and
// effects come out. It has no goroutine, I/O, clock, lock or context. Package claims runs it; proof/explore walks every
// interleaving of its small worlds.
//
// A line has the waiters on the same terms. A claim is one acquisition in the store. A hold is one turn on a claim: a waiter
// becomes a hold, in the same slot. A claim is in one [Stage]:
//
//	               Enter: waits
//	    ┌────────┐────────────►┌────────┐
//	───►│ asking │  adopted    │ queued │
//	    └─┬───┬──┘◄──────┐     └─┬────┬─┘
//	holds │   │ nobody   │       │    │ nobody wants it
//	      │   ▼ wants it │       │    ▼
//	      │  ┌───────────┴┐      │  (quitting)
//	      │  │  quitting  │      │
//	      │  └─────┬──────┘      │ holds
//	      ▼        │ answered    ▼
//	    ┌──────────┼────────────────┐  held too long   ┌──────────┐
//	    │   held   │                ├─────────────────►│ expiring │
//	    └─┬────┬───┼────────┬───────┘                  └──┬────┬──┘
//	      │    │   │        │ Detach ──► nowhere          │    │
//	      │    │   │        │                             │    │ released
//	lease │    │   │ unused │ released                    │    │
//	lost  │    │   ▼        ▼                             │    │
//	      │    │  withdrawing   leaving                   │    │
//	      ▼    │   ▲  │           │  left, and an Enter   │    │
//	    ┌──────┴┐  │  └─────┬─────┘  may arrive yet:      │    │
//	    │ over  ├──┤        ▼        sweeping ──► nowhere │    │
//	    └───────┘  │     nowhere                          │    │
//	        ▲ released    ◄───────────────────────────────┼────┘
//	        └─────────────────────────────────────────────┘ ran out
//
// After a request of unknown outcome, its id serves no other claim. The engine asks for the id until it gets an answer, then
// takes it out of the store, and does so again for a while if an unanswered Enter may still arrive.
//
// A caller's context only takes that caller out of the line, by GiveUp.
package engine
