// Stile holds locks for commands and scripts, over the store that they already run.
//
//	stile run NAME… -- CMD…     holds the lock, or several, while CMD runs
//	stile elect NAME -- CMD…    runs CMD while it leads; with --watch, shows who leads
//	stile cron FILE             runs the jobs of a crontab, once over many machines
//	stile lock | renew | unlock for shell scripts, with a handle file
//	stile ls | show | watch | top    who holds and who waits
//	stile wait NAME             waits until nobody holds the lock
//	stile break NAME            removes a claim by hand
//	stile serve                 the locks of a store over HTTP
//	stile doctor                what the store can promise, and what to set
//	stile bench                 how long locks take in a store, or in two
//	stile prove                 a store under clients that fail
//	stile demo tickets          what it is for, in ten seconds
//
// The store is --url, else STILE_URL, else an SQLite file in the user's state directory. docs/reference/command.md has the
// rest.
package main

import (
	"os"

	_ "github.com/stilelock/stile/cmd/stile/internal/early"
)

// main runs unless package early has already done the work and ended the program.
func main() {
	os.Exit(ended(os.Stderr, execute(newRoot())))
}
