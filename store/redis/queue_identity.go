package redis

import (
	"context"
	"fmt"

	"github.com/stilelock/stile/internal/storeid"
)

// Identity is [driver.Identifier.Identity]. The id is the value of a key of its own, beside those of the names, which have
// braces. It is asked for each time: a server that was flushed, or a replica that had not got it when it took over, has none.
func (d *Driver) Identity(ctx context.Context) (string, error) {
	key := d.prefix + "id"
	id, err := d.conn.Keep(ctx, key, storeid.Draw())
	if err != nil {
		return "", err
	}
	return storeid.Check(fmt.Sprintf("key %q", key), id)
}
