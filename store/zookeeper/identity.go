package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/storeid"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// Identity is [driver.Identifier.Identity]. The id is the data of a node of its own, which stays, beside those of the
// names, whatever the layout. It is one round trip, which a quorum agrees on, and two more while there is no such node.
func (d *Driver) Identity(ctx context.Context) (id string, err error) {
	for range attempts { // a session that is over is found out by using it
		var s *wire.Session
		if s, err = d.live(); err != nil {
			return "", err
		}
		if id, err = d.keepID(ctx, s); !errors.Is(err, driver.ErrSession) {
			return id, err
		}
	}
	return "", asking(err)
}

// keepID reads the id, and makes its node if there is none. Only what was read counts: so all who ask at once get the same,
// and one whose answer was lost asks again.
func (d *Driver) keepID(ctx context.Context, s *wire.Session) (string, error) {
	path := d.prefix + storeid.Place
	above, _ := splitNode(path)
	var parents []*wire.Call
	for range attempts {
		get := wire.Get(path, nil)
		if err := d.do(ctx, s, d.proven(get)...); err != nil {
			return "", err
		}
		if get.Err == nil {
			return storeid.Check("the node "+shown(path), get.Data)
		}
		if !errors.Is(get.Err, wire.NoNode) {
			return "", d.refused(path, get.Err)
		}
		create := wire.CreatePersistent(path, storeid.Draw(), d.acl)
		if err := d.do(ctx, s, append(parents, create)...); err != nil {
			return "", err
		}
		switch {
		case create.Err == nil || errors.Is(create.Err, wire.NodeExists):
		case !errors.Is(create.Err, wire.NoNode):
			return "", d.refused(path, create.Err)
		case firstRefused(parents, nil) != nil && !makesParents(parents):
			return "", d.missing(firstRefused(parents, nil))
		default:
			if parents = d.parents(above); len(parents) == 0 {
				return "", d.missing(create)
			}
		}
	}
	const says = "the node %s, for the id of the store, or what is above it, is removed as often as it is made"
	return "", driver.Refused(driver.Unreachable(fmt.Errorf(says, shown(path))))
}

// firstRefused returns the first of the calls that was refused for another reason than that the node is there.
func firstRefused(parents []*wire.Call, otherwise *wire.Call) *wire.Call {
	for _, p := range parents {
		if p.Err != nil && !errors.Is(p.Err, wire.NodeExists) {
			return p
		}
	}
	return otherwise
}
