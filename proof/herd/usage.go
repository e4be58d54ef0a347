//go:build linux

package main

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// A usage is what a process has used.
type usage struct {
	cpu time.Duration
	rss int64 // bytes now
}

const (
	tick = 10 * time.Millisecond // of /proc, on all common machines
	page = 4096
)

// usages returns the usage of each process; zero for one that is gone.
func usages(pids []string) []usage {
	all := make([]usage, len(pids))
	for i, pid := range pids {
		text, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			continue
		}
		// The name, in brackets, may have spaces. After it come the state, then the fields from the fourth on.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		number := func(field int) int64 {
			n, _ := strconv.ParseInt(string(fields[field-3]), 10, 64) // the kernel writes numbers
			return n
		}
		all[i] = usage{time.Duration(number(14)+number(15)) * tick, number(24) * page}
	}
	return all
}
