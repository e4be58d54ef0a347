//go:build unix

// Package system says what a machine is, and what its processes use.
package system

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Family returns a process and all its descendants (Linux only).
func Family(root int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		var state string
		var parent int
		after := string(text[strings.LastIndexByte(string(text), ')')+1:])
		if _, err := fmt.Sscan(after, &state, &parent); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		children[parent] = append(children[parent], pid)
	}
	all := []int{root}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all, nil
}

// Worked returns the processor seconds of each process, by the kernel's clock of it; other work on the machine does not
// count. The time of a process that ended between two looks is lost.
func Worked(pids []int) (map[int]float64, error) {
	times := map[int]float64{}
	for _, pid := range pids {
		var t unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|2), &t); err == unix.ESRCH || err == unix.EINVAL { // it has ended
			continue
		} else if err != nil {
			return nil, fmt.Errorf("clock of process %d: %w", pid, err)
		}
		times[pid] = float64(t.Nano()) / 1e9
	}
	return times, nil
}

// Resident returns the memory of some processes in bytes, where shared memory counts once.
func Resident(pids []int) float64 {
	sum := 0.0
	for _, pid := range pids {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
				kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
				sum += kib * 1024
			}
		}
	}
	return sum
}

// A Traffic has the bytes that the connections to a port have carried, as their server counts them, by the client's port.
type Traffic map[string][2]float64

// Connections uses ss, which reads the kernel's own counters, to list the connections that a server on a port has accepted.
func Connections(port int) (Traffic, error) {
	out, err := exec.Command("ss", "-tinHO", "state", "established", "sport", "=", fmt.Sprintf(":%d", port)).Output()
	if err != nil {
		return nil, fmt.Errorf("ss of iproute2: %w", err)
	}
	all := Traffic{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) >= 4 {
			all[fields[2]+" "+fields[3]] = [2]float64{counted(fields, "bytes_received:"), counted(fields, "bytes_sent:")}
		}
	}
	return all, nil
}

// counted returns the number after a name in the output of ss. A connection that has carried nothing has no such word.
func counted(words []string, name string) float64 {
	i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, name) })
	if i < 0 {
		return 0
	}
	n, _ := strconv.ParseFloat(strings.TrimPrefix(words[i], name), 64)
	return n
}

// Since returns the bytes received and sent since an earlier look. Connections that ended meanwhile do not count.
func (t Traffic) Since(before Traffic) (received, sent float64) {
	for key, now := range t {
		was := before[key]
		received += now[0] - was[0]
		sent += now[1] - was[1]
	}
	return received, sent
}
