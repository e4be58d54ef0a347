//go:build unix

package servertest

import (
	"fmt"
	"os"
)

// A Host is the [TB] of a program. Fatalf ends what was begun, and the program.
type Host struct {
	Program string // what messages and temporary folders begin with

	ended []func()
}

var _ TB = (*Host)(nil)

// Helper does nothing.
func (h *Host) Helper() {}

// Logf prints a line to standard error.
func (h *Host) Logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, h.Program+": "+format+"\n", args...)
}

// Fatalf prints a line to standard error, and ends the program with status 1.
func (h *Host) Fatalf(format string, args ...any) {
	h.Logf(format, args...)
	h.End()
	os.Exit(1)
}

// Cleanup has f called by End.
func (h *Host) Cleanup(f func()) { h.ended = append(h.ended, f) }

// TempDir makes a folder that End removes.
func (h *Host) TempDir() string {
	dir, err := os.MkdirTemp("", "stile-"+h.Program+"-")
	if err != nil {
		h.Fatalf("%v", err)
	}
	h.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// End does what was left for the end, the last first, once.
func (h *Host) End() {
	for len(h.ended) > 0 {
		last := len(h.ended) - 1
		f := h.ended[last]
		h.ended = h.ended[:last]
		f()
	}
}
