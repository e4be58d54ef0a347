package redis

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/stilelock/stile/driver"
)

// Identity is [driver.Identifier.Identity]. The id is the value of a key of its own, beside those of the names, which have
// braces. It is asked for each time: a server that was flushed, or a replica that had not got it when it took over, has none.
func (d *Driver) Identity(ctx context.Context) (string, error) {
	key := d.prefix + "id"
	id, err := d.conn.Keep(ctx, key, rand.Text())
	if err == nil && driver.CheckName(id) != nil {
		return "", fmt.Errorf("%w: key %q has the value %.20q, which stile did not set", driver.ErrForeign, key, id)
	}
	return id, err
}
