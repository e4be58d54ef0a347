// Package engine decides for one name in one client: which goroutine has the turn, which requests go to the store,
// what a late, lost or unknown answer means, and when a lease is over. It is pure: state, one event and the time go
// in, effects come out. It has no goroutine, I/O, clock, lock or context. Package claims runs it; package explore
// walks every interleaving of its small worlds.
//
// A line is where the waiters on the same terms stand. A claim is one acquisition in the store. A hold is one turn on a
// claim: a waiter becomes a hold, in the same slot. A claim is in one [Stage]:
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
// What carried a request of unknown outcome is never used for another claim: an id is asked for until it is answered,
// then taken out of the store, and taken out again for a while if an Enter that was not answered may arrive yet.
//
// A caller's context takes that caller out of the line, by GiveUp, and does nothing else.
package engine
