//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A placement is the cores of the servers and of the measuring program; empty means all.
type placement struct{ label, servers, program string }

var anywhere = placement{}

// single are the scenarios in which one goroutine asks, and waits for each answer.
var single = []string{"alone"}

// placements returns the placements of a scenario on a store. With a server, a scenario of one goroutine runs on one core
// together with the server, and on two cores. The kernel would move the two processes from one placement to the other by
// chance, and the placement matters more than any change of a revision: on an idle machine of two cores a lock and unlock
// with layout=setnx takes 33 µs on one core, and 170 on two, where each answer wakes a halted core. With the kernel's choice
// the same program took 35 µs in one round, and 160 in the next.
func (b *bench) placements(ctx context.Context, s *store, scenario string) []placement {
	if !s.served || !slices.Contains(single, scenario) {
		return []placement{anywhere}
	}
	cores, err := coresOf(ctx, os.Getpid())
	switch {
	case err != nil:
		fmt.Fprintf(b.log, "%s %s: the kernel chooses the cores, since it cannot be told: %v\n", s.key, scenario, err)
		return []placement{anywhere}
	case len(cores) < 2:
		fmt.Fprintf(b.log, "%s %s: there is only one core\n", s.key, scenario)
		return []placement{anywhere}
	}
	return []placement{{", one core", cores[0], cores[0]}, {", two cores", cores[0], cores[1]}}
}

// place moves all processes below this one, which are the servers, to some cores.
func place(ctx context.Context, cores string) error {
	for _, pid := range descendants(os.Getpid()) {
		_, err := output(ctx, "taskset", "--all-tasks", "--cpu-list", "--pid", cores, strconv.Itoa(pid))
		if err != nil && alive(pid) {
			return err
		}
	}
	return nil
}

// on returns a command that runs on the cores of the program.
func (p placement) on(command ...string) []string {
	if p.program == "" {
		return command
	}
	return append([]string{"taskset", "--cpu-list", p.program}, command...)
}

// coresOf returns the cores that a process may run on.
func coresOf(ctx context.Context, pid int) ([]string, error) {
	text, err := output(ctx, "taskset", "--cpu-list", "--pid", strconv.Itoa(pid))
	if err != nil {
		return nil, err
	}
	_, list, _ := strings.Cut(text, ": ")
	return coresIn(strings.TrimSpace(list))
}

// coresIn returns the cores of a list like 0,2-4.
func coresIn(list string) (cores []string, err error) {
	for part := range strings.SplitSeq(list, ",") {
		from, to, ranges := strings.Cut(part, "-")
		if !ranges {
			to = from
		}
		first, err := strconv.Atoi(from)
		if err != nil {
			return nil, fmt.Errorf("%q is no list of cores", list)
		}
		last, err := strconv.Atoi(to)
		if err != nil {
			return nil, fmt.Errorf("%q is no list of cores", list)
		}
		for core := first; core <= last; core++ {
			cores = append(cores, strconv.Itoa(core))
		}
	}
	return cores, nil
}

// descendants returns the processes that a process has started, their processes, and so on.
func descendants(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is valid
	for _, name := range lists {
		text, _ := os.ReadFile(name) // a thread may have ended
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(append(all, child), descendants(child)...)
			}
		}
	}
	return all
}

func alive(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return err == nil
}

// A clockTick is the unit of the times in /proc/PID/stat, the same on all Linux systems (USER_HZ).
const clockTick = 10 * time.Millisecond

// worked returns the processor time of some processes, of their descendants, and of the ended children of each.
func worked(pids []int) (sum time.Duration) {
	all := slices.Clone(pids)
	for _, pid := range pids {
		all = append(all, descendants(pid)...)
	}
	slices.Sort(all)
	for _, pid := range slices.Compact(all) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // the process may have ended; then its parent has its time
		sum += time.Duration(ticksIn(string(text))) * clockTick
	}
	return sum
}

// ticksIn returns the ticks in a line of /proc/PID/stat: utime, stime, and the same of ended children, fields 14 to 17 of
// proc(5). The program's name, which may have spaces, ends at the last bracket.
func ticksIn(stat string) (sum int64) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const utime, cstime = 11, 14 // counted from the field after the bracket, field 3
	if len(fields) <= cstime {
		return 0
	}
	for _, field := range fields[utime : cstime+1] {
		ticks, _ := strconv.ParseInt(field, 10, 64) // the kernel writes numbers
		sum += ticks
	}
	return sum
}
