// Package tree has locks whose names are paths: the holder of "market" holds everything below it, and the holder of
// "market/item/5" keeps out a caller that wants "market", but not one that wants "market/item/6".
//
//	all := tree.Mutex(locks, "market")         // a stocktaking
//	one := tree.Mutex(locks, "market/item/5")  // a sale; as many at a time as there are items
//
// A lock is a mutex of its own name, and the reader side of each name above: what database systems call multiple granularity
// locking, with intention locks (Gray, Lorie, Putzolu and Traiger 1976). A mutex that waits for "market" stops later ones
// below it, so that a stream of sales cannot keep a stocktaking out.
//
// All programs that use these names must use this package: [stile.Client.Mutex] of "market/item/5" does not exclude
// "market". There is no shared side: a reader of "market" could not keep out a writer below it, who is a reader of "market"
// too.
//
// A lock costs one claim for each part of its path. The claims above are shared by the goroutines of a client, and with
// [stile.LockOptions].Linger they stay between two locks.
package tree

import (
	"slices"
	"strings"

	"github.com/stilelock/stile"
)

// Mutex returns the lock of several paths at once, with all paths below them. A path is parts between slashes. The lock is
// joined, see [stile.Join]: its lease has the token of each path among [stile.Lease.Parts], and its parts have the options
// of the client.
//
// Taking the lock fails with [stile.ErrInvalid] if a path is empty, begins or ends with a slash or has two in a row, is
// given twice, or lies below another, and with [stile.ErrUnsupported] if the store has no readers.
func Mutex(c *stile.Client, paths ...string) *stile.Lock {
	var parts []*stile.Lock
	var above []string
	for _, path := range paths {
		parts = append(parts, c.Mutex(checked(path)))
		for i, r := range path {
			if r == '/' && !slices.Contains(above, path[:i]) {
				above = append(above, path[:i])
			}
		}
	}
	for _, path := range above {
		parts = append(parts, c.Reader(path))
	}
	return stile.Join(parts...)
}

// checked returns a path, or a name that no store accepts if the path has an empty part.
func checked(path string) string {
	if slices.Contains(strings.Split(path, "/"), "") {
		return ""
	}
	return path
}
