// Package mount tells which mount of the file system a path is on.
package mount

// ID returns the number of the mount that a path is on, which is that of the file itself if it is mounted alone; empty
// where the system does not tell. It opens nothing for reading, so that this process keeps its locks on the file.
func ID(path string) string { return id(path) }
