// Package early runs the guard of a CMD, if the program was started as one, before the libraries of the stores are
// initialized. Importing it is enough.
//
// Go initializes packages before main begins: the packages whose imports are ready, in the order of their paths. So this
// package comes before the libraries of etcd, PostgreSQL and SQLite. The guard needs none of them, and does not wait for
// them: it begins and ends in 3.5 ms of processor time, and otherwise in 6.6 ms (go test -run NONE -bench Begin
// ./cmd/stile). TestFewBeforeTheGuard fails if somebody adds an import that must wait for many others.
//
// Of the other packages of the command it may import guard.
package early

import (
	"os"
	"runtime"

	"github.com/stilelock/stile/cmd/stile/internal/guard"
)

func init() {
	// A child that asks to die with its parent dies with the thread that started it. The main goroutine starts children, and
	// the main thread lives as long as the process. Code that starts no such child is not bound to this thread: each switch to
	// another goroutine and back would wake two threads.
	runtime.LockOSThread()
	if len(os.Args) == 2 && os.Args[1] == guard.Arg {
		guard.Main()
		os.Exit(0)
	}
}
