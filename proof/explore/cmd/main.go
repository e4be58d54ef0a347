// Command cmd walks the worlds of package explore and prints the result of each. It fails at the first violation, and
// prints the shortest path to it.
//
//	go run ./proof/explore/cmd [-set small|full|long] [-for 10m] [-world NAME]
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/stilelock/stile/proof/explore"
)

var (
	set    = flag.String("set", "full", "which worlds: small, full or long")
	during = flag.Duration("for", 0, "stop after this; 0 means at the end")
	only   = flag.String("world", "", "only the world of this name")
)

// memory bounds the bytes that a walk may take.
const memory = 2000 << 20

func main() {
	flag.Parse()
	worlds := map[string]func() []explore.Config{"small": explore.Small, "full": explore.Full, "long": explore.Long}[*set]
	if worlds == nil {
		fmt.Fprintf(os.Stderr, "-set is small, full or long\n")
		os.Exit(2)
	}
	debug.SetGCPercent(300) // few pointers survive, so there is little to collect
	debug.SetMemoryLimit(memory * 9 / 10)
	limits := explore.Limits{Memory: memory}
	if *during > 0 {
		limits.Until = time.Now().Add(*during)
	}
	begin := time.Now()
	total := explore.Result{Done: true}
	fmt.Printf("%-36s %10s %11s %6s %8s %6s\n", "world", "states", "transitions", "depth", "seconds", "MB")
	for _, conf := range worlds() {
		if *only != "" && conf.Name != *only {
			continue
		}
		r := explore.Walk(&conf, limits)
		fmt.Println(row(conf.Name, r))
		total.States += r.States
		total.Transitions += r.Transitions
		total.Depth = max(total.Depth, r.Depth)
		total.Memory = max(total.Memory, r.Memory)
		if r.Violation != nil {
			fmt.Printf("violation in world %q, after %d transitions in all: %s", conf.Name, total.Transitions, r.Violation)
			os.Exit(1)
		}
		debug.FreeOSMemory()
	}
	total.Time = time.Since(begin)
	fmt.Println(row("all", &total))
}

func row(name string, r *explore.Result) string {
	end := ""
	if !r.Done {
		end = "  stopped there"
	}
	return fmt.Sprintf("%-36s %10d %11d %6d %8.1f %6d%s", name, r.States, r.Transitions, r.Depth, r.Time.Seconds(),
		r.Memory>>20, end)
}
