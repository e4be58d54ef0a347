package zookeeper

// EndSession ends the session of the client, as an outage does that is longer than the session.
func (d *Driver) EndSession() { d.zk.current().Close(true) }

// LocalClaims is how many claims the driver goes on with.
func (d *Driver) LocalClaims() int {
	d.line.mu.Lock()
	defer d.line.mu.Unlock()
	return d.remembers()
}

// remembers is how many claims there are, and parted ones. The caller holds mu.
func (d *Driver) remembers() int {
	n := len(d.line.localClaims)
	if sem, ok := d.recipe.(*semaphore); ok {
		n += len(sem.parted)
	}
	return n
}
