package trial

import (
	"strings"

	"github.com/stilelock/stile/driver"
)

// Trusted reports whether the store suits a lock that must be right: claims survive a restart, unless it also ends their
// holders, and tokens rise.
func Trusted(t driver.Traits) bool {
	return t.Fencing != driver.NoFencing && (t.Restart || t.Clock == "process")
}

// Purpose returns the uses for which a lock of the store can be trusted.
func Purpose(t driver.Traits) string {
	switch {
	case t.Fencing == driver.NoFencing:
		return "saving work"
	case !Trusted(t):
		return "saving work; a restart frees all locks, and then only tokens keep the data right"
	}
	return "correctness, with tokens"
}

// Kinds returns the kinds of locks that the store has, and whether claims hold in the order in which they entered.
func Kinds(t driver.Traits) string {
	kinds := []string{"exclusive"}
	if t.Shared {
		kinds = append(kinds, "readers")
	}
	if t.Permits {
		kinds = append(kinds, "permits")
	}
	if len(kinds) == 3 {
		kinds = []string{"all"}
	}
	if t.Ordered {
		kinds = append(kinds, "in order")
	}
	return strings.Join(kinds, ", ")
}
