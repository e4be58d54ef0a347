// Package explore walks every interleaving of the engine in small worlds: a few clients with a few goroutines each, one
// name, and [driver.Queue] as the store. A world is a value; [World.Events] lists what may happen next in it, and
// [World.Step] makes one of them happen and says what is wrong after it.
//
// Time moves only to the next moment at which something is due, and only when nothing else is left to be done at once,
// unless a fault says otherwise. A request is applied and answered in one step, since what others do in between
// commutes with it; that a reply is late, or that a request is applied late or twice, is a fault. A path may have so
// many faults as the world says. Two worlds that will do the same are one state: see [World.Hash].
//
// What is written of a world is what will be read again. Times are relative to now and end where they are compared. Since
// when the store owes an answer is written as far as it is later than the first waiter's coming, and a waiter's coming as
// far as it is later than that, since each patience is counted from the later of the two. How long a claim will stay in
// the store is not written while a request is on its way that makes its lease anew or takes it out, if nothing can happen
// to that request any more. Goroutines are known by what they do, and clients by their bytes. Since most events change one
// client, the others' parts of the hash are kept, with what those parts depend on beside the client.
//
// [Walk] keeps a word of each state's hash. It keeps a few states of its level of the tree as worlds, and the others as the
// events that lead there, from which it makes them again: worlds that the processor's cache does not hold are slower to
// read than to make.
//
// After each step the package checks exclusion, as those who hold believe it, against the store's truth; tokens; the
// engine's invariants; and that what was due was armed. From each state that it expands it follows one calm path, without
// further faults, on which everybody must be answered in time and the store must end up empty.
package explore
