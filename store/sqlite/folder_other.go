//go:build !linux

package sqlite

// A folder spares looks at the files in it on Linux.
type folder struct{}

func newFolder(string) *folder { return nil }

func (*folder) vouches(look func() error) error { return look() }
