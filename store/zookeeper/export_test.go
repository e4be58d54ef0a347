package zookeeper

// EndSession ends the session of the client, as an outage does that is longer than the session.
func (d *Driver) EndSession() { d.zk.current().Close(true) }

// LocalClaims is how many claims the driver goes on with.
func (d *Driver) LocalClaims() int {
	n, _ := d.line.remembered()
	if sem, ok := d.recipe.(*semaphore); ok {
		n += sem.remembered()
	}
	return n
}
