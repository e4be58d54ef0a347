package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stilelock/stile/cmd/stile/internal/guard"
	"github.com/stilelock/stile/cmd/stile/internal/tty"
	"github.com/stilelock/stile/driver"
)

// heldVariable tells CMD, and the stile in it, which locks its ancestors hold while it runs: whoever waits for one of them
// in CMD waits for ever, since its holder waits for CMD.
const heldVariable = "STILE_HELD"

// A held lock is one entry of the variable: the key of the name in its store, how it is held, and by which process.
type heldLock struct {
	key     string
	weight  int64
	of      int64
	process int
}

func (h heldLock) String() string {
	return fmt.Sprintf("%s:%d:%d:%d", h.key, h.weight, h.of, h.process)
}

// heldLocks returns those of this process's ancestors. What is not an entry is passed over.
func heldLocks() (list []heldLock) {
	for text := range strings.FieldsSeq(os.Getenv(heldVariable)) {
		parts := strings.Split(text, ":")
		if len(parts) != 4 {
			continue
		}
		weight, err1 := strconv.ParseInt(parts[1], 10, 64)
		of, err2 := strconv.ParseInt(parts[2], 10, 64)
		process, err3 := strconv.Atoi(parts[3])
		if err1 == nil && err2 == nil && err3 == nil && isAncestor(process) {
			list = append(list, heldLock{parts[0], weight, of, process})
		}
	}
	return list
}

// hold returns the lock that is wanted as an entry of the variable.
func (w *wish) hold(a *driver.Address, name string) heldLock {
	h := heldLock{key: nameKey(a, name), weight: driver.All, of: driver.All, process: os.Getpid()}
	switch {
	case w.read:
		h.weight = 1
	case w.ofSet:
		h.weight, h.of = int64(w.permits), int64(w.of)
	}
	return h
}

// conflict returns an error if a lock that is wanted cannot be had before an ancestor has ended, or before this shell
// gives its grant back.
func (w *wish) conflict(a *driver.Address) error {
	for _, name := range w.names {
		if err := w.conflictOn(a, name); err != nil {
			return err
		}
	}
	return nil
}

func (w *wish) conflictOn(a *driver.Address, name string) error {
	want := w.hold(a, name)
	if h := ownGrant(a, name); h != nil && want.weight+h.Weight > want.of {
		return usage("this shell has the lock %q already, by the grant with token %s: it would wait for itself; stile unlock %s",
			name, h.Token, quoted(name))
	}
	sum := want.weight
	for _, h := range heldLocks() {
		if h.key != want.key {
			continue
		}
		if sum += h.weight; sum > want.of {
			return usage("this command runs under a stile run that holds %q (process %d) and waits for it to end: it cannot have the lock too; leave out one of the two",
				name, h.process)
		}
	}
	return nil
}

// ownGrant returns the handle of the grant that this shell has of a name, unless it has run out.
func ownGrant(a *driver.Address, name string) *handleFile {
	m, set, err := variable(a, name)
	if !set || err != nil {
		return nil
	}
	info, err := os.Stat(m.path)
	if err != nil {
		return nil
	}
	h, err := readHandle(m.path)
	if err != nil || h.Token != m.token || time.Since(info.ModTime()) >= time.Duration(h.TTL) {
		return nil
	}
	return h
}

// isAncestor reports whether a process is one of those that started this one, as far as the system tells.
func isAncestor(process int) bool {
	for pid := os.Getppid(); pid > 1; {
		if pid == process {
			return true
		}
		p, err := statOf(pid)
		if err != nil {
			return guard.Alive(process) // there is no /proc: it lives, at least
		}
		pid = p.parent
	}
	return false
}

// hasOthers reports whether a process group, this process's, has members besides it and those that started it. Where the
// system does not tell, a stdout that is no terminal stands for them, as in a pipeline.
func hasOthers(group int) bool {
	if _, err := statOf(os.Getpid()); err != nil {
		return !tty.Is(os.Stdout)
	}
	return slices.ContainsFunc(processes(), func(pid int) bool {
		p, err := statOf(pid)
		return err == nil && p.group == group && !p.ended && pid != os.Getpid() && pid != 1 && !isAncestor(pid)
	})
}

// A procStat is what /proc tells of a process.
type procStat struct {
	ended         bool // and is not reaped yet
	parent, group int
}

var errNoStat = errors.New("the system does not tell of the process")

func statOf(pid int) (p procStat, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // after the name, which may have such in it
	if len(fields) < 3 {
		return p, errNoStat
	}
	p.ended = fields[0] == "Z" || fields[0] == "X"
	if p.parent, err = strconv.Atoi(fields[1]); err == nil {
		p.group, err = strconv.Atoi(fields[2])
	}
	return p, err
}
