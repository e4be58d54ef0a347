package ensemble

import (
	"errors"
	"fmt"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// Parents returns calls that make the nodes above a claim's node, except the chroot. The server refuses a call whose node
// exists.
func (e *Ensemble) Parents(dir string) []*wire.Call {
	var calls []*wire.Call
	for i := len(e.Chroot) + 1; i <= len(dir); i++ {
		if i == len(dir) || dir[i] == '/' {
			calls = append(calls, wire.CreateContainer(dir[:i], e.ACL))
		}
	}
	return calls
}

// MakesParents reports whether a node that lacks a parent may succeed once the parents are made; parents are the calls of
// the last attempt, if there was one. A second attempt may be needed, since the server removes empty containers, even
// between two requests. If the first call was refused with NoNode, the chroot is missing.
func MakesParents(parents []*wire.Call) bool {
	for i, p := range parents {
		if p.Err != nil && !errors.Is(p.Err, wire.NodeExists) && (i == 0 || !errors.Is(p.Err, wire.NoNode)) {
			return false
		}
	}
	return true
}

// Missing explains why a parent could not be made.
func (e *Ensemble) Missing(parent *wire.Call) error {
	if errors.Is(parent.Err, wire.NoNode) {
		return e.NoChroot()
	}
	return e.Refused(parent.Target(), parent.Err)
}

// NoChroot returns the error of a chroot that does not exist.
func (e *Ensemble) NoChroot() error {
	return driver.Refused(fmt.Errorf("there is no node %s, which the URL names as the chroot: make it first", Shown(e.Chroot)))
}
