// Stile holds locks for commands and scripts, over the store that they already run.
//
//	stile run NAME… -- CMD…     holds the lock, or several, while CMD runs
//	stile elect NAME -- CMD…    runs CMD while it leads; with --watch, shows who leads
//	stile lock | renew | unlock for shell scripts, with a handle file
//	stile ls | show | watch | top    who holds and who waits
//	stile wait NAME             waits until nobody holds the lock
//	stile break NAME            removes a claim by hand
//	stile demo tickets          what it is for, in ten seconds
//
// The store is --url, else STILE_URL, else an SQLite file in the user's state directory. docs/reference/command.md has the rest.
package main

import (
	"os"
	"runtime"
)

// A child that asks to die with its parent dies with the thread that started it. The main goroutine starts children,
// and the main thread lives as long as the process.
func init() { runtime.LockOSThread() }

func main() {
	if isGuard() {
		runGuard()
		return
	}
	os.Exit(exitCode(os.Stderr, execute(newRoot())))
}
