//go:build unix

package servertest

import (
	"fmt"
	"os"
	"sync"
)

// A Host is the [TB] of a program, whose goroutines may all use it. Fatalf ends what was begun, and the program.
type Host struct {
	Program string // what messages and temporary folders begin with

	mu    sync.Mutex // guards ended
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

// Cleanup makes End call f.
func (h *Host) Cleanup(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = append(h.ended, f)
}

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
	for f := h.last(); f != nil; f = h.last() {
		f()
	}
}

// last takes the next cleanup from the list, or nil if none is left.
func (h *Host) last() func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.ended)
	if n == 0 {
		return nil
	}
	f := h.ended[n-1]
	h.ended = h.ended[:n-1]
	return f
}
