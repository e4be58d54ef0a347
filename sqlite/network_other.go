//go:build !linux

package sqlite

// networkFS cannot tell a network file system here.
func networkFS(string, string) string { return "" }
