//go:build unix

package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/stilelock/stile/proof/bench/fleet/model"
)

// mostProcesses is how many processes the simulation has memory for.
const mostProcesses = 1_000_000

func simulateMain(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("fleet simulate", flag.ContinueOnError)
	flags.SetOutput(stderr)
	key := flags.String("store", "redis", "the `store` of the fleet")
	from := flags.String("from", "", "measurements to compute from, a `file` that fleet measure wrote; default those of the page")
	processes := flags.Int("processes", 100_000, "processes of the fleet")
	rate := flags.Float64("rate", model.FleetRate, "locks and unlocks of a process a second")
	cores := flags.Int("cores", 0, "cores of the server that serve; default by store")
	seed := flags.Uint64("seed", 1, "of the moments at which the processes ask")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := model.StoreOf(*key)
	if err != nil {
		return fmt.Errorf("-store: %w", err)
	}
	if *cores == 0 {
		*cores = s.Cores
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("simulate takes no argument, but got %q", flags.Arg(0))
	case *processes < 1 || *processes > mostProcesses:
		return fmt.Errorf("-processes must be from 1 to %d, not %d", mostProcesses, *processes)
	case !(*rate >= 0 && *rate <= 10): // also refuses NaN
		return fmt.Errorf("-rate must be from 0 to 10, not %v", *rate)
	case *cores < 1 || *cores > 1024:
		return fmt.Errorf("-cores must be from 1 to 1024, not %d", *cores)
	}
	r, err := record(s, *from)
	if err != nil {
		return err
	}
	costs := r.Costs()
	w := &model.Work{Processes: *processes, Rate: *rate, Cores: *cores}
	result := model.Simulate(&costs, w, *seed)
	tell(stdout, s, r, w, &result)
	return nil
}

// tell prints the result of a simulation.
func tell(stdout io.Writer, s *model.Store, r *model.Record, w *model.Work, result *model.Result) {
	fmt.Fprintf(stdout, "%s, %d processes, computed from measurements of %s\n", r.Server, w.Processes, r.Date)
	fmt.Fprintf(stdout, "processor    %.3f of %d cores\n", result.CPU, w.Cores)
	fmt.Fprintf(stdout, "network      %.1f Mbit/s in, %.1f Mbit/s out\n", result.Received*8/1e6, result.Sent*8/1e6)
	if result.Syncs >= 0 {
		fmt.Fprintf(stdout, "disk syncs   %.0f/s\n", result.Syncs)
	}
	fmt.Fprintf(stdout, "connections  %.0f\nmemory       %.2f GB\n", result.Connections, result.Memory/1e9)
	if result.CPU < float64(w.Cores) {
		fmt.Fprintf(stdout, "a request waits in the server for %.2f ms, p99 %.2f ms\n", result.Median*1e3, result.P99*1e3)
	} else {
		fmt.Fprintln(stdout, "the server falls behind: requests wait longer and longer")
	}
	for _, use := range s.Limits.Shares(&result.Load) {
		if use.Share > 0 {
			fmt.Fprintf(stdout, "%3.0f %% of what one server may be used to: %s\n", math.Ceil(use.Share*100), use.Name)
		}
	}
}

// record reads a record from a file, or the page's own.
func record(s *model.Store, file string) (*model.Record, error) {
	if file == "" {
		return s.Record()
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("-from: %w", err)
	}
	r, err := model.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("-from %s: %w", file, err)
	}
	if r.Store != s.Key {
		return nil, fmt.Errorf("-from %s: has measurements of %q, but -store says %q", file, r.Store, s.Key)
	}
	return r, nil
}
