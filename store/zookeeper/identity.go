package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/storeid"
	"github.com/stilelock/stile/store/zookeeper/internal/ensemble"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
	"github.com/stilelock/stile/store/zookeeper/internal/znode"
)

// Identity implements [driver.Identifier]. The id is the data of a persistent node beside the nodes of the names, in every
// layout. To read it takes one round trip, to which a quorum agrees. To make the node first takes two more, and another two
// if its parent does not exist either.
func (d *Driver) Identity(ctx context.Context) (id string, err error) {
	for range ensemble.Attempts { // only a request shows that the session is over
		var s *wire.Session
		if s, err = d.zk.Live(); err != nil {
			return "", err
		}
		if id, err = d.keepID(ctx, s); !errors.Is(err, driver.ErrSession) {
			return id, err
		}
	}
	return "", ensemble.Asking(err)
}

// keepID reads the id, and makes its node if there is none. It returns only an id that it has read. So all clients that ask
// at once get the same id, and a client that lost an answer may ask again.
func (d *Driver) keepID(ctx context.Context, s *wire.Session) (string, error) {
	path := d.zk.Prefix + storeid.Place
	above, _ := znode.Split(path)
	var parents []*wire.Call
	for range ensemble.Attempts {
		get := wire.Get(path, nil)
		if err := d.zk.Do(ctx, s, d.zk.Proven(get)...); err != nil {
			return "", err
		}
		if get.Err == nil {
			return storeid.Check("the node "+ensemble.Shown(path), get.Data)
		}
		if !errors.Is(get.Err, wire.NoNode) {
			return "", d.zk.Refused(path, get.Err)
		}
		create := wire.CreatePersistent(path, storeid.Draw(), d.zk.ACL)
		if err := d.zk.Do(ctx, s, append(parents, create)...); err != nil {
			return "", err
		}
		switch {
		case create.Err == nil || errors.Is(create.Err, wire.NodeExists):
		case !errors.Is(create.Err, wire.NoNode):
			return "", d.zk.Refused(path, create.Err)
		case firstRefused(parents, nil) != nil && !ensemble.MakesParents(parents):
			return "", d.zk.Missing(firstRefused(parents, nil))
		default:
			if parents = d.zk.Parents(above); len(parents) == 0 {
				return "", d.zk.Missing(create)
			}
		}
	}
	const says = "the node %s, for the id of the store, or what is above it, is removed as often as it is made"
	return "", driver.Refused(driver.Unreachable(fmt.Errorf(says, ensemble.Shown(path))))
}

// firstRefused returns the first parent's call with a refusal other than NodeExists, or otherwise.
func firstRefused(parents []*wire.Call, otherwise *wire.Call) *wire.Call {
	for _, p := range parents {
		if p.Err != nil && !errors.Is(p.Err, wire.NodeExists) {
			return p
		}
	}
	return otherwise
}
