package consul

import (
	"context"
	"fmt"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/storeid"
)

// Identity is [driver.Identifier.Identity]. The id is the value of a key without a session; this key has no slash after the
// prefix, and so is in no queue. Usually Identity is one read that a majority of the servers confirms. While there is no id,
// it takes a transaction and a second read. The transaction makes the key only if it does not exist. So all clients that ask
// at once read the same id, and a client whose answer was lost asks again.
func (d *Driver) Identity(ctx context.Context) (string, error) {
	key := d.prefix + storeid.Place
	pairs, _, err := d.agent.read(ctx, key, false, 0, 0)
	var other *conflict // another client has made the key
	if err == nil && len(pairs) == 0 {
		_, other, err = d.agent.transact(ctx, []op{{Verb: create, Key: key, Value: []byte(storeid.Draw())}})
		if err == nil {
			pairs, _, err = d.agent.read(ctx, key, false, 0, 0)
		}
	}
	switch {
	case err != nil:
		return "", err
	case len(pairs) == 0 && other != nil:
		return "", driver.Unreachable(fmt.Errorf("the key %s, for the id of the store, cannot be made: %w", key, other))
	case len(pairs) == 0:
		return "", driver.Unreachable(fmt.Errorf("the key %s, for the id of the store, is gone as soon as it is made", key))
	}
	return storeid.Check(fmt.Sprintf("key %q", key), string(pairs[0].Value))
}
