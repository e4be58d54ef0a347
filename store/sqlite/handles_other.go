//go:build !linux

package sqlite

// shared cannot find out here which log another process uses.
func (f *files) shared() error { return nil }

// handles are descriptors, which are not known here.
type handles struct{}
