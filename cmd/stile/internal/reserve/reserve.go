// Package reserve checks that nobody else uses the names below a prefix, and that nothing is left of them.
//
// Of the other packages of the command it may import none.
package reserve

import (
	"context"
	"errors"
	"fmt"

	"github.com/stilelock/stile"
)

// ErrInUse says that somebody else uses names below the prefix.
var ErrInUse = errors.New("the prefix is in use")

// Unused fails if names below the prefix are in use. If the store cannot list names, the user who chose the prefix must make
// sure of that.
func Unused(ctx context.Context, c *stile.Client, prefix string) error {
	names, err := Names(ctx, c, prefix)
	if err != nil && !errors.Is(err, stile.ErrUnsupported) {
		return err
	}
	if len(names) > 0 {
		return fmt.Errorf("%w: %q is locked or waited for", ErrInUse, names[0])
	}
	return nil
}

// Names returns the names below the prefix that are in use.
func Names(ctx context.Context, c *stile.Client, prefix string) (names []string, err error) {
	list, err := c.List(ctx, prefix+"/")
	for _, q := range list {
		names = append(names, q.Name)
	}
	return names, err
}
