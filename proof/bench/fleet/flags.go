//go:build unix

package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/stilelock/stile/proof/bench/fleet/model"
	"golang.org/x/sys/unix"
)

// A sizeList is a flag of numbers with commas between them.
type sizeList []int

// mostClients is how many clients fit into the ports of one address, at three connections each.
const mostClients = 9000

func (l *sizeList) String() string {
	var words []string
	for _, n := range *l {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ",")
}

func (l *sizeList) Set(text string) error {
	var list sizeList
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > mostClients {
			return fmt.Errorf("%q is not a number from 1 to %d", word, mostClients)
		}
		list = append(list, n)
	}
	*l = list
	return nil
}

// fewAndMany returns the two sizes for the measurements of parts; an empty list means the store's own.
func (l sizeList) fewAndMany(s *store) (sizeList, error) {
	if len(l) == 0 {
		return s.parts, nil
	}
	if len(l) != 2 || l[0] < model.Group || l[1] < l[0] {
		return nil, fmt.Errorf("-parts must be two numbers, the first at least %d and the second no less, not %v", model.Group, &l)
	}
	return l, nil
}

// machine describes this machine.
func machine() string {
	cpu := runtime.GOARCH
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			cpu = strings.TrimSpace(value)
			break
		}
	}
	system := runtime.GOOS
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		system = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	return fmt.Sprintf("%s, %d cores, %s, %s", cpu, runtime.NumCPU(), system, runtime.Version())
}
