// Package events reads what go test -json prints.
package events

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
)

// An Event is one line; see go doc test2json.
type Event struct {
	Action, Package, Test, Output, ImportPath, FailedBuild string

	Elapsed float64 // seconds
}

// Ends reports whether it says what became of a test or of a package.
func (e *Event) Ends() bool { return e.Action == "pass" || e.Action == "fail" || e.Action == "skip" }

// Read reads all events. A line that is none, such as a warning of the go command, goes to other.
func Read(r io.Reader, take func(*Event), other func(line []byte)) error {
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		} else if err != nil && err != io.EOF {
			return err
		}
		var e Event
		if json.Unmarshal(line, &e) != nil {
			other(line)
			continue
		}
		take(&e)
	}
}

// Breaks reports whether a line of output is the first that the Go runtime says when the process breaks.
func Breaks(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") ||
		strings.HasPrefix(line, "SIGQUIT: ")
}

// IsDetectors reports whether a line of output is the race detector's message as it breaks: one of its own checks has
// failed. Its message about a race is another.
func IsDetectors(line string) bool { return strings.HasPrefix(line, "ThreadSanitizer: CHECK failed: ") }

// Noise reports whether a line of output says no more than other events, or the line of the package, do.
func Noise(line string) bool {
	return strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "FAIL\t") || line == "PASS\n" || line == "FAIL\n"
}
