// Package early is the guard of a CMD before the libraries of the stores are initialized, if the program was started as one.
// Importing it is enough.
//
// Go initializes packages before main begins, those first whose imports are ready, by the order of their paths. So this
// package comes before the libraries of etcd, PostgreSQL and SQLite, and the guard, which needs none of them, is not kept
// waiting: it begins and ends in 3.5 ms of processor time, of which it took 6.6 before (go test -run NONE -bench Begin
// ./cmd/stile). TestFewBeforeTheGuard fails if an import is added that must wait for many others.
//
// Of the other packages of the command it may import guard.
package early

import (
	"os"
	"runtime"

	"github.com/stilelock/stile/cmd/stile/internal/guard"
)

func init() {
	// A child that asks to die with its parent dies with the thread that started it. The main goroutine starts children,
	// and the main thread lives as long as the process. What starts no such child is not bound to the thread: each switch to
	// another goroutine and back would wake two threads.
	runtime.LockOSThread()
	if len(os.Args) == 2 && os.Args[1] == guard.Arg {
		guard.Main()
		os.Exit(0)
	}
}
