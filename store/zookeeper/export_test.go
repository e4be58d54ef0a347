package zookeeper

import (
	"github.com/stilelock/stile/store/zookeeper/internal/curator"
)

// EndSession ends the client's session, as an outage does that is longer than the session.
func (d *Driver) EndSession() { d.zk.Current().Close(true) }

// LocalClaims returns how many claims the driver remembers.
func (d *Driver) LocalClaims() int {
	n, _ := d.line.Remembered()
	if sem, ok := d.recipe.(*curator.Semaphore); ok {
		n += sem.Remembered()
	}
	return n
}
