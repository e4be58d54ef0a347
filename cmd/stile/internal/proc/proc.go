// Package proc reads the system's data about processes: this process's file and parents, and all visible processes.
//
// Of the other packages of the command it may import guard and tty.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/stilelock/stile/cmd/stile/internal/guard"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
)

// IsAncestor reports whether a process is an ancestor of this one, as far as the system shows.
func IsAncestor(process int) bool {
	for pid := os.Getppid(); pid > 1; {
		if pid == process {
			return true
		}
		p, err := StatOf(pid)
		if err != nil {
			return guard.Alive(process) // there is no /proc: at least it lives
		}
		pid = p.Parent
	}
	return false
}

// HasOthers reports whether this process's group has members other than this process and its ancestors. If the system does
// not show that, a stdout that is no terminal counts as one, as in a pipeline.
func HasOthers(group int) bool {
	if _, err := StatOf(os.Getpid()); err != nil {
		return !tty.Is(os.Stdout)
	}
	return slices.ContainsFunc(All(), func(pid int) bool {
		p, err := StatOf(pid)
		return err == nil && p.group == group && !p.Ended && pid != os.Getpid() && pid != 1 && !IsAncestor(pid)
	})
}

// A Stat has the data of a process in /proc.
type Stat struct {
	Ended         bool // it has ended, and is not reaped yet
	Parent, group int
}

var errNoStat = errors.New("the system does not tell of the process")

// StatOf returns the system's data about a process.
func StatOf(pid int) (p Stat, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, err
	}
	// The fields follow the name, which may contain spaces and ')'.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 3 {
		return p, errNoStat
	}
	p.Ended = fields[0] == "Z" || fields[0] == "X"
	if p.Parent, err = strconv.Atoi(fields[1]); err == nil {
		p.group, err = strconv.Atoi(fields[2])
	}
	return p, err
}

// All returns the visible processes.
func All() (list []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, pid)
		}
	}
	return list
}
