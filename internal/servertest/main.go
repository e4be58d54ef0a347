//go:build unix

package servertest

import "testing"

// Main runs the tests of a package beside servers that they share: start starts them, and they are gone when the tests
// have ended. TestMain calls it.
func Main(m *testing.M, start func(t TB)) int {
	h := &Host{Program: "servertest"}
	defer h.End()
	start(h)
	return m.Run()
}
