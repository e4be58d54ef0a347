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

// A placement is on which cores the servers and the program that measures run; empty means on all.
type placement struct{ label, servers, program string }

var anywhere = placement{}

// single are the scenarios in which one goroutine asks, and waits for each answer.
var single = []string{"alone"}

// placements returns where a scenario is measured on a store. With a server, one that asks alone is measured beside the
// server on one core, and with a core for each. Left to itself the kernel moves the two from one of these to the other, by
// chance and for as long as it likes, and which it is matters more than all that a revision does: on an idle machine of
// two cores a lock and unlock with layout=setnx takes 33 µs on one core, and 170 on two, where each answer wakes a core
// that has halted. With the kernel's choice the same program came to 35 µs in one round, and to 160 in the next.
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

// place has all processes that this one has started, and theirs, run on some cores: the servers.
func place(ctx context.Context, cores string) error {
	for _, pid := range descendants(os.Getpid()) {
		_, err := output(ctx, "taskset", "--all-tasks", "--cpu-list", "--pid", cores, strconv.Itoa(pid))
		if err != nil && alive(pid) {
			return err
		}
	}
	return nil
}

// on returns a command that runs on the cores of a program.
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

// descendants returns the processes that a process has started, those that these have, and so on.
func descendants(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is good
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

// A clockTick is the unit of the times in /proc/PID/stat; it is the same on all of Linux (USER_HZ).
const clockTick = 10 * time.Millisecond

// worked returns how long the processors have worked for processes, for those that they have started, and for those of these that
// have ended.
func worked(pids []int) (sum time.Duration) {
	all := slices.Clone(pids)
	for _, pid := range pids {
		all = append(all, descendants(pid)...)
	}
	slices.Sort(all)
	for _, pid := range slices.Compact(all) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // it may have ended; then its parent has its time
		sum += time.Duration(ticksIn(string(text))) * clockTick
	}
	return sum
}

// ticksIn returns the ticks in a line of /proc/PID/stat: utime, stime, and those of children that have ended, fields 14 to 17
// of proc(5). What stands before the last bracket is the program's name, which may have spaces.
func ticksIn(stat string) (sum int64) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const utime, cstime = 11, 14 // counted from what follows the bracket, field 3
	if len(fields) <= cstime {
		return 0
	}
	for _, field := range fields[utime : cstime+1] {
		ticks, _ := strconv.ParseInt(field, 10, 64) // the kernel writes numbers
		sum += ticks
	}
	return sum
}
