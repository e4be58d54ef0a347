//go:build unix

package servertest

import (
	"fmt"
	"os"
	"testing"
)

// Main runs the tests of a package beside servers that they share: start starts them, and they are gone when the tests
// have ended. TestMain calls it.
func Main(m *testing.M, start func(t TB)) int {
	t := &shared{}
	defer t.end()
	if !t.began(start) {
		return 1
	}
	return m.Run()
}

// A shared is the [TB] of what lives as long as the process.
type shared struct{ cleanups []func() }

type failure struct{ text string }

func (t *shared) began(start func(t TB)) (ok bool) {
	defer func() {
		if f, failed := recover().(failure); failed {
			fmt.Fprintln(os.Stderr, f.text)
			ok = false
		}
	}()
	start(t)
	return true
}

func (t *shared) end() {
	for len(t.cleanups) > 0 {
		last := len(t.cleanups) - 1
		f := t.cleanups[last]
		t.cleanups = t.cleanups[:last]
		f()
	}
}

func (t *shared) Helper()                           {}
func (t *shared) Fatalf(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...)}) }
func (t *shared) Logf(format string, args ...any)   { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (t *shared) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }

func (t *shared) TempDir() string {
	dir, err := os.MkdirTemp("", "servertest-")
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
