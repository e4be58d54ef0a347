// Package explore walks every interleaving of the engine in small worlds: a few clients with a few goroutines each, one
// name, and [driver.Queue] as the store. A world is a value; [World.Events] lists the events that may come next, and
// [World.Step] makes one of them happen and returns a violation, if there is one.
//
// Time moves only to the next moment at which something is due, and only when nothing else is left to do at once, unless a
// fault says otherwise. A request is applied and answered in one step, since everything that others do in between commutes
// with it. A reply that is late, and a request that is applied late or twice, are faults. The world says how many faults a
// path may have. Two worlds that behave the same from now on are one state: see [World.Hash].
//
// The encoding of a world has only what will be read again. Times are relative to now, and are cut off where their further
// size makes no difference. The time since when the store owes an answer counts only as far as it is later than the arrival
// of the first waiter, and a waiter's arrival only as far as it is later than that time, since each patience is counted
// from the later of the two. How long a claim stays in the store is left out while a request is on its way that renews or
// removes the claim, if nothing can happen to that request any more. Goroutines are encoded by what they do, and clients by
// their bytes. Since most events change one client, the hash keeps the parts of the other clients, together with everything
// that those parts depend on beside the client.
//
// [Walk] keeps one word of each state's hash. Of the states of a level it keeps a few as worlds, and the others as the
// events that lead to them, from which it makes them again: a world that is not in the processor's cache is slower to read
// than to make.
//
// After each step the package checks mutual exclusion, between what holders believe and the store's truth; tokens; the
// engine's invariants; and that everything that was due had been armed. From each state that it expands it follows one calm
// path without further faults: everybody must be answered in time, and the store must be empty in the end.
package explore
