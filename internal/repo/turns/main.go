// Turns chooses among the parts of make check that do not run each time:
//
//	turns [-budget 200s]
//
// First come the parts for the files of a change, then the others in turn, by the number of the commit, as far as the budget
// of time goes. The first is chosen at any cost. It prints the targets of the Makefile on one line, and on stderr why each
// was chosen, and which were left out.
//
// The change is everything on the branch since it left main (origin/main, or main), or BASE of the environment, and
// everything uncommitted. On main it is the last five commits.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	budget := flag.Duration("budget", 200*time.Second, "how long the chosen parts may take together")
	flag.Parse()
	c, err := changeSince(os.Getenv("BASE"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "turns:", err)
		os.Exit(1)
	}
	chosen, left := choose(parts, c, *budget)
	fmt.Fprintf(os.Stderr, "the change: %s; the turn: %s\n", c.of, c.by)
	names := make([]string, len(chosen))
	for i, p := range chosen {
		names[i] = p.name
		fmt.Fprintf(os.Stderr, "%-14s %4.0f s  %s\n", p.name, p.takes.Seconds(), p.why)
	}
	for _, p := range left {
		fmt.Fprintf(os.Stderr, "%-14s %4.0f s  left out: %s\n", p.name, p.takes.Seconds(), p.why)
	}
	if len(left) > 0 {
		fmt.Fprintln(os.Stderr, "make full runs all of them")
	}
	fmt.Println(strings.Join(names, " "))
}
